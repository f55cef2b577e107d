"""Stick-breaking attention (Tan et al. 2024): the nearest key takes its share, and the next one of what is left.

    z_ij = q_i · k_j / sqrt(d)
    A_ij = σ(z_ij) prod_{j<l<i} (1 - σ(z_il)),   j < i          log A_ij = z_ij + sum_{j<=l<i} log(1 - σ(z_il))
    y_i  = sum_j A_ij v_j  +  r_i v_i,           r_i = 1 - sum_j A_ij = prod_{l<i} (1 - σ(z_il))

The nearest of two equal keys takes more, so the weights know the order of the tokens without an encoding of positions.
With `current` a token is the first to take of its own stick, j <= i. Without `remainder` what is left is lost.

The logarithms are summed in fp32 at least, from the query backwards, so that the shares of near keys are exact. Time is
that of softmax attention, O(T² d), with a logarithm, a sum and an exponential for each pair; memory: query_blocks.py.

Shapes: B batch, T tokens, S keys, H heads, d head width, D model width.
"""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from ..options import Inherited
from .base import Traits
from .query_blocks import ReadInBlocks, sums_to_the_end


class StickBreaking(ReadInBlocks):
    """Attention by breaking a stick: near keys take their share before far ones."""

    name = "stick-breaking"
    traits = Traits(
        keeps_keys=True, knows_order="a key's weight is what the keys between it and the query have left over"
    )

    def __init__(
        self,
        width: int,
        *,
        current: Annotated[bool, "Whether a token takes of its own stick, before those that precede it."],
        remainder: Annotated[bool, "Whether what no key has taken goes to the token's own value."],
        **shared: Inherited,
    ):
        super().__init__(width, **shared)
        self.current, self.remainder = current, remainder

    def read(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        T, S = q.shape[2], k.shape[2]
        kind = torch.promote_types(q.dtype, torch.float32)
        z = q.to(kind) @ k.to(kind).mT * q.shape[-1] ** -0.5
        if not self.current:
            mask = mask.tril(S - T - 1)
        # By the logarithm of what is left, the share of key j itself included; keys that are not read take nothing.
        left = sums_to_the_end(F.logsigmoid(-z).masked_fill(~mask, 0.0))
        A = F.dropout((z + left).masked_fill(~mask, -torch.inf).exp(), self.dropout, self.training)
        y = A.to(v.dtype) @ v
        return y + left[..., :1].exp().to(v.dtype) * v[:, :, S - T :] if self.remainder else y
