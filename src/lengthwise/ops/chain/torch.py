"""The fast form: one block for short texts, block rows for others; sums in single precision or better.

Where the choice rests on measurement, `docs/log.md` has the figures.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .blocks import Blocks
from .single import Single
from .system import Form

SINGLE = 128
"""Up to so many tokens all of A is kept."""
BLOCK, LARGE_BLOCK, LARGE = 128, 256, 4096
"""Rows a block, and rows a block from LARGE tokens on."""


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
    kind, T = q.dtype, q.shape[2]
    with torch.autocast(q.device.type, enabled=False):
        if kind in (torch.bfloat16, torch.float16):
            q, k, v, gamma, solved = q.float(), k.float(), v.float(), gamma.float(), solved.float()
        bias = None if bias is None else bias.to(q.dtype)
        form = Form(diagonal, scale, block or (BLOCK if T < LARGE else LARGE_BLOCK))
        if block is None and T <= SINGLE and k.shape[2] == T and segments is None:
            y = Single.apply(q, k, v, gamma, bias, form)[0]
        else:
            y = Blocks.apply(q, k, v, gamma, bias, segments, solved, form)[0]
    return y.to(kind)
