"""ChaCAL (Fagnou et al. 2024), attention that follows chains of references: Tables 1 to 3, Figure 5, pretraining."""

from . import figure_5, pretraining, table_1, table_2, table_3

__all__ = ["figure_5", "pretraining", "table_1", "table_2", "table_3"]
