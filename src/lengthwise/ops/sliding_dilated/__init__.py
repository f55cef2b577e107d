"""Sliding-dilated attention: at level l the query at m reads the keys at m, m - C^l, …, m - (C-1) C^l.

    s[m, j] = q[m] · k[m - j C^l] / sqrt(d) + bias[h, j]          j = 0 … C-1
    y[m]    = sum_j softmax_j(s[m, :]) v[m - j C^l]

A tap is missing where m - j C^l < 0, m counted inside its own sequence. Its place is taken by the pad's key and value,
or, without a pad, it is left out of the softmax.

Shapes: B batch, H heads, T queries, S keys, d head width, C chunk.
"""

from __future__ import annotations

from torch import Tensor

from ...errors import Error, ShapeError
from ..backend import choose
from .reference import reference
from .torch import fast

OP = "sliding_dilated_attention"
IMPLEMENTATIONS = {"reference": reference, "torch": fast}


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
    backend: str = "auto",
) -> Tensor:
    """q (B,H,T,d), k and v (B,H,S,d) with S >= T: the queries are the last T of the keys, so that a state can go on.

    bias (H,C); pad: the key and value of the learned vector, (H,d) each, or None to drop missing taps;
    positions (B,T): where each query stands in its own sequence (packed rows, padding), by default its index among the
    keys. A query that is itself padding (position below 0) still reads itself, so its row is finite.
    stride: the queries are every stride-th of the keys, counted from the end.

    >>> import torch
    >>> x = torch.arange(5.).view(1, 1, 5, 1)
    >>> zero = torch.zeros_like(x)  # equal logits: the mean over the taps m and m - 2
    >>> sliding_dilated_attention(zero, zero, x, torch.zeros(1, 2), chunk=2, level=1).flatten().tolist()
    [0.0, 1.0, 1.0, 2.0, 3.0]
    """
    _check(q, k, v, bias, chunk, level, pad, positions, stride)
    run = choose(backend, OP, IMPLEMENTATIONS)
    # Beyond the first key every tap is missing alike; the cap keeps C^l a machine integer at any level.
    dilation = min(chunk**level, k.shape[2])
    return run(q, k, v, bias, dilation, pad, positions, q.shape[-1] ** -0.5 if scale is None else scale, stride)


def _check(q, k, v, bias, chunk, level, pad, positions, stride) -> None:
    if chunk < 2:
        raise Error(f"{OP}: chunk must be at least 2, got {chunk}.")
    if level < 0:
        raise Error(f"{OP}: level must be at least 0, got {level}.")
    if stride < 1:
        raise Error(f"{OP}: stride must be at least 1, got {stride}.")
    if q.dim() != 4 or k.shape != v.shape or k.dim() != 4:
        raise ShapeError(
            f"{OP}: q is (B,H,T,d) and k, v are (B,H,S,d), got {list(q.shape)}, {list(k.shape)}, {list(v.shape)}."
        )
    B, H, T, d = q.shape
    if T == 0:
        raise ShapeError(f"{OP}: there must be at least one query, got T = 0.")
    if k.shape != (B, H, k.shape[2], d) or k.shape[2] <= (T - 1) * stride:
        raise ShapeError(
            f"{OP}: keys must be (B,H,S,d) = {[B, H, 'S', d]} with S > (T - 1) * stride = {(T - 1) * stride} (every "
            f"query is one of the keys), got {list(k.shape)}."
        )
    if bias.shape != (H, chunk):
        raise ShapeError(f"{OP}: bias must be (H, chunk) = {[H, chunk]}, got {list(bias.shape)}.")
    if pad is not None and any(p.shape != (H, d) for p in pad):
        raise ShapeError(f"{OP}: pad must be two (H,d) = {[H, d]}, got {[list(p.shape) for p in pad]}.")
    if positions is not None and positions.shape != (B, T):
        raise ShapeError(f"{OP}: positions must be (B,T) = {[B, T]}, got {list(positions.shape)}.")


__all__ = ["sliding_dilated_attention"]
