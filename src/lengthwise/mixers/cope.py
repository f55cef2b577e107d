"""CoPE, contextual positions (Golovneva et al. 2024): what stands between a query and a key is counted as it matters.

    g_ij = σ(q_i · k_j / sqrt(d)),   p_ij = min(g_ij + … + g_ii, rows - 1)
    logit_ij = (q_i · k_j + q_i · e[p_ij]) / sqrt(d)

e is a table of `rows` vectors, zero at first and shared by the heads of a layer. Between whole numbers q_i · e[p] is
interpolated. A head may so count words, sentences or sums: whatever its gates open for.

Gates, counts and logits are in fp32 at least. Time is O(T² d + T rows d), with a sum and two look-ups for each pair;
memory: query_blocks.py.

Shapes: B batch, T tokens, S keys, H heads, d head width, D model width.
"""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..options import Inherited, at_least
from .base import Traits
from .query_blocks import ReadInBlocks, sums_to_the_end


class CoPE(ReadInBlocks):
    """Softmax attention with contextual positions: gates decide which tokens between query and key are counted."""

    name = "cope"
    traits = Traits(keeps_keys=True, knows_order="its gates count the tokens between a query and a key")

    def __init__(
        self,
        width: int,
        *,
        rows: Annotated[int, at_least(1), "How many counts have a vector of their own; all beyond share the last."],
        **shared: Inherited,
    ):
        super().__init__(width, **shared)
        self.e = nn.Parameter(torch.zeros(width // self.heads, rows))

    def read(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        kind = torch.promote_types(q.dtype, torch.float32)
        q = q.to(kind) * q.shape[-1] ** -0.5
        logits = q @ k.to(kind).mT
        p = sums_to_the_end(logits.sigmoid().masked_fill(~mask, 0.0)).clamp(max=self.e.shape[1] - 1)
        below = p.detach().floor()
        z, part = q @ self.e.to(kind), p - below
        low, high = (z.gather(-1, row.long()) for row in (below, p.detach().ceil()))
        A = (logits + low + part * (high - low)).masked_fill(~mask, -torch.inf).softmax(-1)
        return F.dropout(A, self.dropout, self.training).to(v.dtype) @ v
