"""What stands before the first token: the pad, or zeros that a mask will hide."""

from __future__ import annotations

import torch
from torch import Tensor


def on_left(x: Tensor, count: int, fill: Tensor | None, axis: int = 2) -> Tensor:
    """x (B,H,T,d), or (B,T,H,d) with axis 1, and before its first token `count` more: `fill` (H,d), or zeros."""
    if count == 0:
        return x
    shape = [*x.shape[:axis], count, *x.shape[axis + 1 :]]
    fill = x.new_zeros(()) if fill is None else fill.to(x.dtype).unsqueeze(axis - 1)
    return torch.cat([fill.expand(shape), x], axis)


def standing(q: Tensor, k: Tensor, positions: Tensor | None, stride: int) -> Tensor:
    """(B or 1, T): how many tokens of its own sequence each query can look back on; padding on none."""
    T, S = q.shape[2], k.shape[2]
    columns = torch.arange(S - 1 - (T - 1) * stride, S, stride, device=q.device)[None]
    return columns if positions is None else torch.minimum(columns, positions).clamp(min=0)
