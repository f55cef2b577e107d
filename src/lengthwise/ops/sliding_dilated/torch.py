"""The fast form: by shifted copies for few taps, by matrix products for many. It never builds T times T.

Where the choice of form and of sizes rests on measurement, `docs/log.md` has the figures.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .blocks import block, by_blocks
from .taps import by_taps

FEW, FEW_IN_CHUNKS = 7, 16
"""From this many taps on matrix products are faster; where queries share no key they have less to gain."""
LARGE, SLAB = 2**21, 2**20
"""On a CPU, temporaries of more than LARGE numbers cost more in fresh pages than in arithmetic; SLAB fits a cache."""


def fast(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor,
    dilation: int,
    pad: tuple[Tensor, Tensor] | None,
    positions: Tensor | None,
    scale: float,
    stride: int,
) -> Tensor:
    bias = _merged(bias, -(-k.shape[2] // dilation), pad is not None)
    C, (B, H, T, d) = bias.shape[1], q.shape
    # Queries that are both strided and dilated fall into residues unevenly; no model asks for them.
    few = (FEW if stride == 1 else FEW_IN_CHUNKS) > C or (stride > 1 and dilation > 1)
    run = by_taps if few else by_blocks

    width = d if few else max(2 * d, C + block(C, T, stride))
    rows = max(1, SLAB // (H * T * width))
    if B * H * T * width <= LARGE or rows >= B or q.device.type != "cpu" or torch.compiler.is_compiling():
        return run(q, k, v, bias, dilation, pad, positions, scale, stride)
    # Cut and joined in their order in memory; in another order each would be copied across.
    turn = (lambda x: x.transpose(1, 2)) if q.stride(1) < q.stride(2) else (lambda x: x)
    parts = zip(*(turn(x).split(rows) for x in (q, k, v)), strict=True)
    stands = [None] * -(-B // rows) if positions is None else positions.split(rows)
    slabs = [
        turn(run(turn(a), turn(b), turn(c), bias, dilation, pad, p, scale, stride))
        for (a, b, c), p in zip(parts, stands, strict=True)
    ]
    return turn(torch.cat(slabs))


def _merged(bias: Tensor, n: int, padded: bool) -> Tensor:
    """The bias of the taps that can meet one of n tokens, and of all others in one: they meet the same pad, if any.

    A tap of bias r weighs exp(r) times what the pad's key weighs, so together they weigh as one of bias logsumexp(r).
    """
    if not padded:
        return bias[:, :n]
    if bias.shape[1] <= n + 1:
        return bias
    return torch.cat([bias[:, :n], bias[:, n:].logsumexp(1, keepdim=True)], 1)
