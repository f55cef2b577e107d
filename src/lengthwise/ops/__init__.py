"""The numerics under the mixers. An op is a folder: `call.py` its arguments, `reference.py` the oracle, and beside
it the other kernels, named by algorithm; a short one is a file. `kernels.py` chooses among them.
"""

from . import block_diagonal, chain, diagonal, key_biased, sliding_dilated
from .block_diagonal import block_scan
from .chain import chain_attention, solved_values
from .diagonal import diagonal_scan
from .kernels import BACKENDS, Kernel, Op, backend
from .key_biased import key_biased_attention
from .ranks import Piece, Ranks
from .sliding_dilated import sliding_dilated_attention

OPS = {op.name: op for op in (sliding_dilated.OP, chain.OP, key_biased.OP, block_diagonal.OP, diagonal.OP)}
"""Every op with its kernels, by name."""

__all__ = [
    "BACKENDS",
    "OPS",
    "Kernel",
    "Op",
    "Piece",
    "Ranks",
    "backend",
    "block_scan",
    "chain_attention",
    "diagonal_scan",
    "key_biased_attention",
    "sliding_dilated_attention",
    "solved_values",
]


def __dir__() -> list[str]:
    return sorted(__all__)
