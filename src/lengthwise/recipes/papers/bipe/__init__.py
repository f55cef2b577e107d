"""BiPE (He et al. 2024), positions inside segments and between them: figures, tables, and the widths of Theorem 3."""

from . import figure_1, figure_3, figure_4, figure_5, figure_6, figure_9, table_1, table_2, theorem_3

__all__ = ["figure_1", "figure_3", "figure_4", "figure_5", "figure_6", "figure_9", "table_1", "table_2", "theorem_3"]
