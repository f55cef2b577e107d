"""Sliding-dilated attention: at level l the query at m reads the keys at m, m - C^l, …, m - (C-1) C^l.

    s[m, j] = q[m] · k[m - j C^l] / sqrt(d) + bias[h, j]          j = 0 … C-1
    y[m]    = sum_j softmax_j(s[m, :]) v[m - j C^l]

A tap is missing where m - j C^l < 0, m counted inside its own sequence. Its place is taken by the pad's key and value,
or, without a pad, it is left out of the softmax.

Shapes: B batch, H heads, T queries, S keys, d head width, C chunk.
"""

from __future__ import annotations

from torch import Tensor

from ..kernels import Kernel, Op
from .call import NAME, DilatedCall, check
from .eager import by_torch
from .reference import oracle

OP: Op[DilatedCall] = Op(NAME, [Kernel("torch", by_torch, priority=1), Kernel("reference", oracle)])


def sliding_dilated_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor,
    *,
    chunk: int,
    level: int,
    pad: tuple[Tensor, Tensor] | None = None,
    positions: Tensor | None = None,
    scale: float | None = None,
    stride: int = 1,
    dilation: int | None = None,
    backend: str = "auto",
) -> Tensor:
    """q (B,H,T,d), k and v (B,H,S,d) with S >= T: the queries are the last T of the keys, so that a state can go on.

    bias (H,C); pad: the key and value of the learned vector, (H,d) each, or None to drop missing taps;
    positions (B,T): where each query stands in its own sequence (packed rows, padding), by default its index among the
    keys. A query that is itself padding (position below 0) still reads itself, so its row is finite.
    stride: the queries are every stride-th of the keys, counted from the end.
    dilation: the distance of two taps, where it is not C^level.

    >>> import torch
    >>> x = torch.arange(5.).view(1, 1, 5, 1)
    >>> zero = torch.zeros_like(x)  # equal logits: the mean over the taps m and m - 2
    >>> sliding_dilated_attention(zero, zero, x, torch.zeros(1, 2), chunk=2, level=1).flatten().tolist()
    [0.0, 1.0, 1.0, 2.0, 3.0]
    """
    check(q, k, v, bias, chunk, level, pad, positions, stride, dilation)
    # Beyond the first key every tap is missing alike; the cap keeps C^l a machine integer at any level.
    distance = min(chunk**level if dilation is None else dilation, k.shape[2])
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    return OP.run(DilatedCall(q, k, v, bias, distance, pad, positions, factor, stride), backend)


__all__ = ["OP", "sliding_dilated_attention"]
