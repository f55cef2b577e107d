"""Transformer-XL relative positions: the logit of query i and key j is

    [(q_i + u) · k_j + (q_i + v) · R_{i-j}] / sqrt(d),        R_n = W sinusoid(n)

The first product comes of `rotate_queries`, which adds u; the second is the bias, and needs the query without u.
R has one row per distance, so (q + v) · R is (B,H,T,S) and each query then picks its own distances out of it:
nothing of size T·T·d is ever built.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from ..limits import need_memory
from .absolute import sinusoid
from .base import Places, Position
from .score import DenseBias, Score


class TransformerXL(Position):
    at_attention = True
    in_each_layer = True

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        base: Annotated[float, "The slowest angle turns once in about 2π times this many tokens."] = 10_000.0,
    ):
        super().__init__()
        self.width, self.heads, self.base = width, heads, base
        self.u = nn.Parameter(torch.zeros(heads, width // heads))
        self.v = nn.Parameter(torch.zeros(heads, width // heads))
        self.relative = nn.Linear(width, width, bias=False)

    def rotate_queries(self, q: Tensor, places: Places) -> Tensor:
        return q + self.u[:, None]

    def score(self, q: Tensor, queries: Places, keys: Places) -> Score:
        B, T, S = q.shape[0], q.shape[2], keys["token"].shape[1]
        if T > 1 and not torch.compiler.is_compiling():
            # Distances, (q + v) · R, its entries picked out, and those scaled.
            size = B * T * S * (8 + 3 * self.heads * q.element_size())
            what = f"transformer-xl: {B} x {T:,} queries of {S:,} keys, each pair with a bias in {self.heads} heads,"
            need_memory(size, what, "Ask for shorter strings, or use another position.", q.device)
        # Inside one sequence of at most S tokens no distance reaches S; across sequences the logit is masked anyway.
        n = (queries["token"][:, :, None] - keys["token"][:, None, :]).clamp(0, S - 1)
        sinusoids = sinusoid(torch.arange(S, device=q.device), self.width, self.base)
        R = self.relative(sinusoids.to(self.relative.weight.dtype)).view(S, self.heads, -1).transpose(0, 1)
        every = (q + self.v[:, None]).to(R.dtype) @ R.mT
        bias = every.gather(-1, n[:, None].expand(-1, self.heads, -1, -1)) * q.shape[-1] ** -0.5
        return Score(bias=DenseBias(bias))
