"""Gated DeltaProduct (Siems et al. 2025): a matrix of values by keys, which every token changes in n steps.

    S <- α S, then n times  S <- S (I - β k kᵀ) + β v kᵀ,    y = out(rms(S q / sqrt(d)) ∘ silu(G x))

    q, k, v = silu(c), c a causal convolution of 4 taps of linear maps of x; q and k then of length 1
    β = σ(W x), twice that with `negative`: I - β k kᵀ then has an eigenvalue in [-1, 1], a reflection at its end
    ln α = -a softplus(A x + b), one for each head; without `gated` it is 0

One step a token is (gated) DeltaNet. Of the R = C n steps of a block of tokens the changes u kᵀ come of one triangular
solve, with c the sum of ln α so far and Γ_rs = exp(c_r - c_s), 0 where s lies in another sequence (stril: below the
diagonal, B = diag β; rows of K, V, Q are k, v, q; S₀ enters the block):

    (I + stril(B K Kᵀ ∘ Γ)) U = B (V - e^c K S₀ᵀ),    S q of token t, after step r: row r of (Q Kᵀ ∘ Γ) U + e^c Q S₀ᵀ

All of it is in fp32 at least. The state is Sᵀ and the last three inputs of the convolution.

Shapes: B batch, T tokens, H heads, C tokens of a block, R its steps, d width of a key, e of a value, D model width.
"""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import Error
from ..options import at_least
from ..positions import Layout
from .attention import check_heads, merge_heads
from .base import Mixer, Traits
from .short_convolution import Recent, convolved, new_taps

TAPS, BLOCK = 4, 64
LEAST = 1e-6
"""Added to the square of a length before it is divided by."""


class DeltaState(NamedTuple):
    croppable = False
    S: Tensor
    """(B,H,d,e)"""
    recent: Recent

    def select(self, rows: Tensor) -> DeltaState:
        """These rows, in this order."""
        return DeltaState(self.S[rows], self.recent.select(rows))


class DeltaProduct(Mixer):
    def __init__(
        self,
        width: int,
        *,
        heads: Annotated[int, "How many heads share the width, which they must divide."],
        steps: Annotated[int, at_least(1), "How many reflections, or parts of them, a token makes."],
        values: Annotated[int, at_least(1), "How many times as wide as a key a value is."],
        negative: Annotated[bool, "Whether a step may turn its direction over: eigenvalues from -1, not 0, to 1."],
        gated: Annotated[bool, "Whether a token may let all that the state holds fade."],
    ):
        super().__init__()
        check_heads("delta-product", width, heads)
        self.heads, self.steps, self.negative = heads, steps, negative
        self.sizes = [width, steps * width, steps * values * width]
        self.qkv = nn.Linear(width, sum(self.sizes), bias=False)
        self.taps = new_taps(TAPS, sum(self.sizes))
        self.strength = nn.Linear(width, steps * heads, bias=False)
        self.fade = nn.Linear(width, heads, bias=False) if gated else None
        if gated:
            self.log_rate = nn.Parameter((16 * torch.rand(heads)).clamp(min=1e-4).log())
            step = (log(1e-3) + torch.rand(heads) * log(100)).exp()
            self.fade_bias = nn.Parameter(step + (-(-step).expm1()).log())
            """b, of which softplus gives 1e-3 to 0.1 at first."""
        self.gate = nn.Linear(width, values * width, bias=False)
        self.scale = nn.Parameter(torch.ones(values * width // heads))
        self.out = nn.Linear(values * width, width, bias=False)
        self.traits = replace(Traits(), heads=heads)

    def forward(self, x: Tensor, *, layout: Layout, state: DeltaState | None = None) -> tuple[Tensor, DeltaState]:
        if x.shape[1] == 0:
            raise Error("delta-product: there must be at least one token, got T = 0.")
        own, H, n = self.scale.dtype, self.heads, self.steps
        kind = torch.promote_types(own, torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            u = x.to(own)
            c, recent = convolved(self.qkv(u), self.taps, layout, None if state is None else state.recent)
            q, k, v = F.silu(c.to(kind)).split(self.sizes, -1)
            beta = self.strength(u).to(kind).sigmoid() * (2 if self.negative else 1)
            fade = u.new_zeros(*u.shape[:2], H, dtype=kind)
            if self.fade is not None:
                fade = -self.log_rate.exp() * F.softplus(self.fade(u).to(kind) + self.fade_bias)
            if layout.real is not None:
                here = layout.real[..., None]
                beta, fade = torch.where(here, beta, 0.0), torch.where(here, fade, 0.0)
            parts = [
                _unit(_by_head(q, 1, H)),
                _unit(_by_head(k, n, H)),
                _by_head(v, n, H),
                _by_head(beta, n, H),
                fade.mT,
            ]
            S = u.new_zeros(len(u), H, q.shape[-1] // H, len(self.scale), dtype=kind) if state is None else state.S
            y, S = self._read(parts, layout, S)
            y = y * (y.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * self.scale
            y = self.out(merge_heads(y).to(own) * F.silu(self.gate(u)))
        return y.to(x.dtype), DeltaState(S, recent)

    def _read(self, parts: list[Tensor], layout: Layout, S: Tensor) -> tuple[Tensor, Tensor]:
        """S q / sqrt(d) (B,H,T,e) and the last state."""
        T, n = layout.positions.shape[1], self.steps
        # Which sequence of the row a token belongs to, counted from that of the state.
        number = None
        if layout.sequences is not None:
            begins = layout.positions == 0
            number = F.pad((begins if layout.real is None else begins & layout.real).long().cumsum(1), (1, 0))
        ys = []
        for start in range(0, T, BLOCK):
            end = min(start + BLOCK, T)
            columns = [slice(start, end), *[slice(n * start, n * end)] * 3, slice(start, end)]
            q, k, v, beta, fade = (part[:, :, at] for part, at in zip(parts, columns, strict=True))
            y, S = self._block(q, k, v, beta, fade, None if number is None else number[:, start : end + 1], S)
            ys.append(y)
        return torch.cat(ys, 2), S

    def _block(
        self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, fade: Tensor, number: Tensor | None, S: Tensor
    ) -> tuple[Tensor, Tensor]:
        n, R = self.steps, k.shape[2]
        c = fade.cumsum(-1).repeat_interleave(n, -1)
        later = torch.ones(R, R, dtype=torch.bool, device=k.device).triu(1)
        enters = c.exp()[..., None]
        if number is not None:
            own = number[:, 1:].repeat_interleave(n, -1)
            later = later | (own[:, :, None] != own[:, None, :])[:, None]
            enters = enters * (own == number[:, :1])[:, None, :, None]
        decay = (c[..., :, None] - c[..., None, :]).masked_fill(later, -torch.inf).exp()
        last = slice(n - 1, None, n)
        # The diagonal is taken to be 1, and nothing on or above it is read.
        L = beta * (k @ k.mT) * decay
        U = torch.linalg.solve_triangular(L, beta * (v - enters * (k @ S)), upper=False, unitriangular=True)
        y = enters[:, :, last] * (q @ S) + ((q @ k.mT) * decay[:, :, last]) @ U
        S = enters[:, :, -1:] * S + (k * decay[:, :, -1, :, None]).mT @ U
        return y * q.shape[-1] ** -0.5, S


def _by_head(x: Tensor, n: int, H: int) -> Tensor:
    """(B,T,n H w) -> (B,H,T n,w)"""
    B, T, _ = x.shape
    return x.reshape(B, T * n, H, -1).transpose(1, 2)


def _unit(x: Tensor) -> Tensor:
    return x * (x.square().sum(-1, keepdim=True) + LEAST).rsqrt()
