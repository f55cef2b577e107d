"""ChaCAL (Fagnou et al. 2024), attention that follows chains of references: tables, figures, and beyond."""

from .attention import attention
from .figure_5 import figure_5
from .length import length
from .table_1 import table_1
from .table_2 import table_2
from .table_3 import table_3
from .warm_start import warm_start

__all__ = ["attention", "figure_5", "length", "table_1", "table_2", "table_3", "warm_start"]
