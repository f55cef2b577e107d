"""By torch's operators: one row of the system for one token, all of A for short texts, block rows for others.

Where the choice rests on measurement, `docs/log.md` has the figures.
"""

from __future__ import annotations

import math

from torch import Tensor

from .block_rows import BlockRows
from .call import Call
from .dense import Dense
from .one_token import solve_one_row
from .reference import encoder
from .triangular import Constants

SHORT, KEPT = 128, 2**20
"""Up to so many tokens, and numbers in A, all of A is kept."""
SMALLEST, LARGEST, FITS = 32, 256, 2**18
"""Bounds of the rows in a block, and how many numbers of its part of A stay in a cache."""


def by_torch(call: Call, block: int | None = None) -> Tensor:
    """As `oracle`. block: go by block rows, so many rows to a block."""
    if not call.causal:
        return encoder(call)
    q, k, v, gamma, bias, sequences = call.q, call.k, call.v, call.gamma, call.bias, call.sequences
    heads, T = q.shape[0] * q.shape[1], q.shape[2]
    if T == 1 and block is None:
        return solve_one_row(call)
    constants = Constants(call.diagonal, call.scale, block or rows_in_block(heads))
    short = T <= SHORT and heads * T * T <= KEPT and k.shape[2] == T and sequences is None
    if short and block is None:
        return Dense.apply(q, k, v, gamma, bias, constants)[0]
    return BlockRows.apply(q, k, v, gamma, bias, sequences, call.solved, constants)[0]


def rows_in_block(heads: int) -> int:
    """For so many heads in the whole batch, a power of two.

    >>> rows_in_block(8), rows_in_block(64), rows_in_block(1000)
    (128, 64, 32)
    """
    return min(LARGEST, max(SMALLEST, 2 ** int(math.log2(FITS / heads) / 2)))
