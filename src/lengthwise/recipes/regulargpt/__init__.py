"""RegularGPT (Chi et al. 2023), a Transformer whose depth grows with its input: its tables, its figures, and beyond."""

from .choice import choice
from .chunk_sizes import chunk_sizes
from .collapse import collapse
from .complexity import complexity
from .far import far
from .figure_3 import figure_3
from .figure_4 import figure_4
from .table_1 import table_1
from .table_2 import table_2

__all__ = ["choice", "chunk_sizes", "collapse", "complexity", "far", "figure_3", "figure_4", "table_1", "table_2"]
