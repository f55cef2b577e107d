"""By torch's operators: shifted copies for few taps, matrix products for many. It never builds T times T.

Where the choice of form and of sizes rests on measurement, `docs/log.md` has the figures.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from .banded import block_size, by_banded_blocks
from .call import Call
from .shifted import by_shifted_copies

FEW, FEW_IN_CHUNKS = 7, 16
"""From this many taps on matrix products are faster; where queries share no key they have less to gain."""
LARGE, SLAB = 2**21, 2**20
"""On a CPU, temporaries of more than LARGE numbers cost more in fresh pages than in arithmetic; SLAB fits a cache."""


def by_torch(call: Call) -> Tensor:
    """As `oracle`."""
    q, stride = call.q, call.stride
    bias = _merged(call.bias, -(-call.k.shape[2] // call.dilation), call.pad is not None)
    if bias is not call.bias:
        call = replace(call, bias=bias)
    C, (B, H, T, d) = bias.shape[1], q.shape
    # Queries that are both strided and dilated fall into residues unevenly; no model asks for them.
    few = (FEW if stride == 1 else FEW_IN_CHUNKS) > C or (stride > 1 and call.dilation > 1)
    run = by_shifted_copies if few else by_banded_blocks

    width = d if few else max(2 * d, C + block_size(C, T, stride))
    rows = max(1, SLAB // (H * T * width))
    if B * H * T * width <= LARGE or rows >= B or q.device.type != "cpu" or torch.compiler.is_compiling():
        return run(call)
    # Cut and joined in their order in memory; in another order each would be copied across.
    turn = (lambda x: x.transpose(1, 2)) if q.stride(1) < q.stride(2) else (lambda x: x)
    parts = zip(*(turn(x).split(rows) for x in (q, call.k, call.v)), strict=True)
    positions = [None] * -(-B // rows) if call.positions is None else call.positions.split(rows)
    slabs = [
        turn(run(replace(call, q=turn(a), k=turn(b), v=turn(c), positions=p)))
        for (a, b, c), p in zip(parts, positions, strict=True)
    ]
    return turn(torch.cat(slabs))


def _merged(bias: Tensor, n: int, padded: bool) -> Tensor:
    """The bias of the taps that can meet one of n tokens, and one bias for all others: they meet the same pad, if any.

    A tap of bias r weighs exp(r) times what the pad's key weighs, so together they weigh as one of bias logsumexp(r).
    """
    if bias.shape[1] <= (n + 1 if padded else n):
        return bias
    if not padded:
        return bias[:, :n]
    return torch.cat([bias[:, :n], bias[:, n:].logsumexp(1, keepdim=True)], 1)
