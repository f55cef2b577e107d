"""BiPE (He et al. 2024), positions inside segments and between them: Figures 1 and 3, and the widths of Theorem 3."""

from . import figure_1, figure_3, theorem_3

__all__ = ["figure_1", "figure_3", "theorem_3"]
