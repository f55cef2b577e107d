"""PoPE, polar positions (Gopalakrishnan et al. 2025): what a token says is a length, where it stands an angle.

    logit_ij = sum_{c<d} softplus(q_ic) softplus(k_jc) cos((j - i) θ_c + δ_c) / sqrt(d),    θ_c = base^(-c/d)

RoPE turns pairs of entries that have an angle already, which says what the token is; here the place alone makes the
angle. δ in [-2π, 0] is learned for each entry of each layer's heads, and 0 at first.

An entry of a query becomes softplus(q) (cos iθ, sin iθ), one of a key softplus(k) (cos(jθ + δ), sin(jθ + δ)), and their
product is the summand. So queries and keys are twice as wide, and a cache keeps twice as much of the keys.

Shapes: B batch, T tokens, H heads, d head width.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..options import above
from .absolute import INEXACT
from .base import Places, Position


class Pope(Position):
    at_attention = in_each_layer = takes_fractions = True

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        base: Annotated[
            float, above(1), "The slowest entry turns once in about 2 pi times this many tokens."
        ] = 10_000.0,
    ):
        super().__init__()
        self.d, self.base = width // heads, base
        self.delta = nn.Parameter(torch.zeros(heads, self.d))

    def rotate(self, x: Tensor, places: Places) -> Tensor:
        cos, sin = self._turns(places, x.dtype)
        delta = self.delta.to(x.dtype).clamp(-2 * math.pi, 0)[:, None]
        a, b = delta.cos(), delta.sin()
        return self._polar(x, cos * a - sin * b, sin * a + cos * b)

    def rotate_queries(self, q: Tensor, places: Places) -> Tensor:
        # Attention divides by the root of a width that is 2d.
        return self._polar(q, *self._turns(places, q.dtype)) * 2**0.5

    def _polar(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        length = F.softplus(x)
        return torch.cat([length * cos, length * sin], -1).to(x.dtype)

    def _turns(self, places: Places, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """cos and sin (B,1,T,d) of the places' angles, which all layers share."""
        return places.once(("pope", self.base, self.d, dtype), lambda: self._angles(places["token"], dtype))

    def _angles(self, ids: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        exact = INEXACT.get(ids.device.type, torch.float64)
        theta = self.base ** (-torch.arange(self.d, dtype=exact, device=ids.device) / self.d)
        angle = (ids[..., None].to(exact) * theta)[:, None]
        return angle.cos().to(dtype), angle.sin().to(dtype)
