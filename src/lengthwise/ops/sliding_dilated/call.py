"""A call of sliding-dilated attention: its arguments, checked and brought into one form, and what stands before the
first token: the pad, or zeros that a mask will hide.

Shapes: as in the package.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...errors import Error, ShapeError

NAME = "sliding_dilated_attention"


@dataclass(frozen=True)
class DilatedCall:
    q: Tensor
    """(B,H,T,d)"""
    k: Tensor
    """(B,H,S,d), and v alike."""
    v: Tensor
    bias: Tensor
    """(H,C)"""
    dilation: int
    """D = C^l, the distance between two taps."""
    pad: tuple[Tensor, Tensor] | None
    """The key and the value that stand in for a missing tap, (H,d) each."""
    positions: Tensor | None
    """(B,T): how many tokens of its own sequence stand before each query; None: all the keys before it."""
    scale: float
    stride: int
    """The queries are every stride-th of the keys, counted from the end."""

    def reach(self) -> Tensor:
        """(B or 1, T): how many tokens of its own sequence each query can look back on; padding on none."""
        T, S = self.q.shape[2], self.k.shape[2]
        columns = torch.arange(S - 1 - (T - 1) * self.stride, S, self.stride, device=self.q.device)[None]
        return columns if self.positions is None else torch.minimum(columns, self.positions).clamp(min=0)


def on_left(x: Tensor, count: int, fill: Tensor | None, axis: int = 2) -> Tensor:
    """x (B,H,T,d), or (B,T,H,d) with axis 1, and before its first token `count` more: `fill` (H,d), or zeros."""
    if count == 0:
        return x
    shape = [*x.shape[:axis], count, *x.shape[axis + 1 :]]
    fill = x.new_zeros(()) if fill is None else fill.to(x.dtype).unsqueeze(axis - 1)
    return torch.cat([fill.expand(shape), x], axis)


def check(q, k, v, bias, chunk, level, pad, positions, stride, dilation) -> None:
    """Raises where the arguments of `sliding_dilated_attention` do not fit together."""
    if chunk < 2:
        raise Error(f"{NAME}: chunk must be at least 2, got {chunk}.")
    if level < 0:
        raise Error(f"{NAME}: level must be at least 0, got {level}.")
    if stride < 1:
        raise Error(f"{NAME}: stride must be at least 1, got {stride}.")
    if dilation is not None and dilation < 1:
        raise Error(f"{NAME}: dilation must be at least 1, got {dilation}.")
    if q.dim() != 4 or k.shape != v.shape or k.dim() != 4:
        raise ShapeError(
            f"{NAME}: q is (B,H,T,d) and k, v are (B,H,S,d), got {list(q.shape)}, {list(k.shape)}, {list(v.shape)}."
        )
    B, H, T, d = q.shape
    if 0 in (H, T, d):
        raise ShapeError(f"{NAME}: H, T and d must be at least 1, got H = {H}, T = {T}, d = {d}.")
    if k.shape != (B, H, k.shape[2], d) or k.shape[2] <= (T - 1) * stride:
        raise ShapeError(
            f"{NAME}: keys must be (B,H,S,d) = {[B, H, 'S', d]} with S > (T - 1) * stride = {(T - 1) * stride} (every "
            f"query is one of the keys), got {list(k.shape)}."
        )
    if bias.shape != (H, chunk):
        raise ShapeError(f"{NAME}: bias must be (H, chunk) = {[H, chunk]}, got {list(bias.shape)}.")
    if pad is not None and any(p.shape != (H, d) for p in pad):
        raise ShapeError(f"{NAME}: pad must be two (H,d) = {[H, d]}, got {[list(p.shape) for p in pad]}.")
    if positions is not None and positions.shape != (B, T):
        raise ShapeError(f"{NAME}: positions must be (B,T) = {[B, T]}, got {list(positions.shape)}.")
