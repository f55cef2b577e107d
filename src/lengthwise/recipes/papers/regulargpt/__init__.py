"""RegularGPT (Chi et al. 2023), a Transformer whose depth grows with its input: Tables 1 to 3, Figures 3 and 4."""

from . import figure_3, figure_4, figure_4b, table_1, table_2, table_3

__all__ = ["figure_3", "figure_4", "figure_4b", "table_1", "table_2", "table_3"]
