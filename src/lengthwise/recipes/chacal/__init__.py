"""ChaCAL (Fagnou et al. 2024), attention that follows chains of references: tables, figures, and beyond."""

from .figure_5 import figure_5
from .table_1 import table_1
from .warm_start import warm_start

__all__ = ["figure_5", "table_1", "warm_start"]
