"""RegularGPT (Chi et al. 2023), a Transformer whose depth grows with its input: its tables, its figures, and beyond."""

from .complexity import complexity
from .far import far
from .table_1 import table_1
from .table_2 import table_2

__all__ = ["complexity", "far", "table_1", "table_2"]
