"""The tables of RegularGPT (Chi et al. 2023): a Transformer whose depth grows with its input, on regular languages."""

from .table_1 import table_1
from .table_2 import table_2

__all__ = ["table_1", "table_2"]
