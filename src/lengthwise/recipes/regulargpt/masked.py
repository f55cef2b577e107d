"""Equation (1) to the letter: sliding-dilated attention as a softmax under a T×T mask. What the sparse form is held to.

    M[m, n] = r_{(m-n) / C^l}  if (m-n) / C^l is in {0, …, C-1},  else -inf

Shapes: B batch, T tokens, H heads, d head width, D model width, C chunk.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...mixers import Layout, Level, Mixer
from ...mixers.attention import merge_heads, split_heads
from ...mixers.base import FIRST, Traits
from ...mixers.sliding_dilated import SlidingDilated


class Masked(Mixer):
    """A sliding-dilated mixer's own weights, used the dense way; missing taps are left out."""

    traits = Traits(takes_level=True)

    def __init__(self, sparse: SlidingDilated):
        super().__init__()
        self.heads, self.chunk = sparse.heads, sparse.chunk
        self.qkv, self.out, self.r = sparse.qkv, sparse.out, sparse.r

    def forward(self, x: Tensor, *, layout: Layout, state: Any = None, level: Level = FIRST) -> tuple[Tensor, None]:
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, -1))
        return self.out(merge_heads(attention(q, k, v, self.r, level.number))), None


def attention(q: Tensor, k: Tensor, v: Tensor, r: Tensor, level: int) -> Tensor:
    """(B,H,T,d), q, k, v alike; r (H,C)."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask(r, q.shape[2], level))


def mask(r: Tensor, T: int, level: int) -> Tensor:
    """(H,T,T) M of equation (1).

    >>> mask(torch.tensor([[0.5, 0.25]]), 3, level=1)[0]
    tensor([[0.5000,   -inf,   -inf],
            [  -inf, 0.5000,   -inf],
            [0.2500,   -inf, 0.5000]])
    """
    C = r.shape[1]
    outside = r.new_full((len(r), 1), -torch.inf)
    return torch.cat([r, outside], 1)[:, _taps(T, C, level, r.device)]


@lru_cache(maxsize=16)
def _taps(T: int, C: int, level: int, device: torch.device) -> Tensor:
    """(T,T) which tap of m the token n is; C where it is none."""
    at = torch.arange(T, device=device)
    lag = at[:, None] - at
    tap = lag // C**level
    seen = (lag >= 0) & (lag % C**level == 0) & (tap < C)
    return tap.where(seen, C)
