"""The fast form: one row for one token, one block for short texts, block rows for others.

Where the choice rests on measurement, `docs/log.md` has the figures.
"""

from __future__ import annotations

import math

from torch import Tensor

from .blocks import Blocks
from .row import row
from .single import Single
from .system import Form

SINGLE, KEPT = 128, 2**20
"""Up to so many tokens, and numbers in A, all of A is kept."""
SHORTEST, LONGEST, FITS = 32, 256, 2**18
"""Rows a block, such that its part of A, FITS numbers, stays in a cache."""


def fast(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gamma: Tensor,
    bias: Tensor | None,
    segments: Tensor | None,
    diagonal: bool,
    scale: float,
    solved: Tensor,
    block: int | None = None,
) -> Tensor:
    heads, T = q.shape[0] * q.shape[1], q.shape[2]
    form = Form(diagonal, scale, block or rows(heads))
    if T == 1 and block is None:
        return row(q, k, v, gamma, bias, segments, solved, form)
    whole = T <= SINGLE and heads * T * T <= KEPT and k.shape[2] == T and segments is None
    if whole and block is None:
        return Single.apply(q, k, v, gamma, bias, form)[0]
    return Blocks.apply(q, k, v, gamma, bias, segments, solved, form)[0]


def rows(heads: int) -> int:
    """Rows a block for so many heads in the whole batch, a power of two.

    >>> rows(8), rows(64), rows(1000)
    (128, 64, 32)
    """
    return min(LONGEST, max(SHORTEST, 2 ** int(math.log2(FITS / heads) / 2)))
