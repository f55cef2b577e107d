"""BiPE (He et al. 2024), positions in two levels, the inside of a segment and the segments: Figure 3."""

from . import figure_3

__all__ = ["figure_3"]
