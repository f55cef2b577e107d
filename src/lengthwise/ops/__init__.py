"""The numerics under the mixers. Every op is a folder: `reference.py` is the oracle, `torch.py` the fast form."""

from .backend import BACKENDS, backend
from .block_scan import block_scan
from .chain import chain_attention, solved_values
from .diagonal_scan import diagonal_scan
from .sliding_dilated import sliding_dilated_attention

__all__ = [
    "BACKENDS",
    "backend",
    "block_scan",
    "chain_attention",
    "diagonal_scan",
    "sliding_dilated_attention",
    "solved_values",
]
