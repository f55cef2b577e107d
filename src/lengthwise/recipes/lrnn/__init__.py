"""The block-diagonal input-dependent linear RNN (Fan et al. 2024): its table, what its parts do, and beyond."""

from .ablation import ablation
from .seam import seam
from .stability import stability
from .table_2 import table_2

__all__ = ["ablation", "seam", "stability", "table_2"]
