"""Scale-invariant attention (Anson et al. 2025): near and far ranges of tokens weigh alike, however long the text.

    logit_ij  =  a(t) (q_i · k_j) / sqrt(d) - 2 ln(1 + t/τ),    t = i - j,    a(t) = sqrt(1 + 2 ln(1 + t/τ))

The second part takes from each token what grows with the number of tokens so far away; a makes the few of them that
matter stand out. It goes with p-RoPE, which turns the fastest pairs of entries alone, and with normalised queries and
keys (`qk_norm` of the model), for which it was derived.

a is of pairs, and no fused attention multiplies pairs: (a - 1) q · k / sqrt(d) is a bias of all pairs.

Shapes: B batch, T queries, S keys, H heads, d head width.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from ..options import above, at_least
from .base import Places
from .rope import Rope
from .score import Bias, DenseBias


class ScaleInvariant(Rope):
    at_pairs = True

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        tau: Annotated[float, above(0), "Up to about how many tokens away all count as near."] = 10.0,
        share: Annotated[
            float, at_least(0, at_most=1), "The share of the pairs that turn, the fastest ones; the others hold still."
        ] = 0.5,
        base: Annotated[
            float, above(1), "The slowest pair turns once in about 2 pi times this many tokens."
        ] = 10_000.0,
    ):
        super().__init__(width, heads, base=base, share=share)
        self.tau = tau

    def pairs(self, q: Tensor, k: Tensor, queries: Places, keys: Places) -> Bias:
        kind = torch.promote_types(q.dtype, torch.float32)
        t = (queries["token"][:, :, None] - keys["token"][:, None, :]).clamp(min=0)
        far = (t.to(kind) / self.tau).log1p()[:, None]
        with torch.autocast(q.device.type, enabled=False):
            product = q.to(kind) @ k.to(kind).mT * q.shape[-1] ** -0.5
        return DenseBias(((1 + 2 * far).sqrt() - 1) * product - 2 * far)
