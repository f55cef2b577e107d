"""What FoX's Pro block adds to attention (Lin et al. 2025): keys and values shifted by a token, norms, an output gate.

    k_t = α_t k'_(t-1) + (1 - α_t) k'_t,    α_t = σ(w · x_t),  one for each head;    v alike, with an α of its own
    q, k become q / rms(q) ∘ g, k / rms(k) ∘ g',  each in its head;    y_t = W_o (σ(W_g x_t) ∘ o_t / rms(o_t) ∘ g'')

Before the first token of a sequence k' and v' are 0. So the state also holds the last k' and v'.

Shapes: B batch, T tokens, H heads, d head width, D model width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..positions import Layout

EPS = 1e-5


class HeadNorm(nn.Module):
    """x / rms(x) of every head (B,H,T,d) by itself, with a factor for each entry of each head."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(heads, 1, width // heads))

    def forward(self, x: Tensor) -> Tensor:
        return (F.rms_norm(x.to(self.factor.dtype), x.shape[-1:], eps=EPS) * self.factor).to(x.dtype)


class TokenShift(nn.Module):
    """Keys and values (B,H,T,d) mixed with those of the token before, as the token itself says."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.share = nn.Linear(width, 2 * heads, bias=False)

    def forward(
        self, x: Tensor, k: Tensor, v: Tensor, layout: Layout, last: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The keys, the values, and (B,2H,1,d) what the next token is to be given as `last`."""
        new = torch.cat([k, v], 1)
        before = F.pad(new, (0, 0, 1, 0)) if last is None else torch.cat([last, new], 2)
        earlier = before[:, :, :-1]
        if not layout.plain:
            earlier = earlier.masked_fill((layout.positions <= 0)[:, None, :, None], 0)
        share = self.share(x).sigmoid().mT[..., None].to(new.dtype)
        k, v = (share * earlier + (1 - share) * new).chunk(2, 1)
        return k, v, new[:, :, -1:]


class OutputGate(nn.Module):
    """A gate on what the heads (B,H,T,d) have read: normalised in each head, as much as the token lets through."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm, self.gate = HeadNorm(width, heads), nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        opened = self.gate(x).sigmoid().unflatten(-1, (y.shape[1], -1)).transpose(1, 2)
        return self.norm(y) * opened.to(y.dtype)
