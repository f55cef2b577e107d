"""A call of key-biased attention: its arguments, checked and brought into one form.

Shapes: B batch, H heads, T queries, S keys, d head width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...errors import Error, ShapeError

NAME = "key_biased_attention"
NEVER, LATER = -1e9, 500.0
"""What -inf counts as for the first key, and how much more for each later one: a query that may read no key reads its
own, and none that may read one notices."""
EXACT = {"mps": torch.float32}
"""Biases are subtracted from one another in fp64, but on devices that have none."""


@dataclass(frozen=True)
class KeyBiasedCall:
    q: Tensor
    """(B,H,T,d), and k and v (B,H,S,d) of the same type: the queries are the last T of the S keys."""
    k: Tensor
    v: Tensor
    bias: Tensor
    """(B,H,S) in fp64, finite."""
    scale: float
    """Above 0."""
    dropout: float
    """The share of the weights that is dropped."""

    @classmethod
    def of(
        cls,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        key_bias: Tensor,
        *,
        scale: float | None = None,
        dropout: float = 0.0,
    ) -> KeyBiasedCall:
        """The call that `key_biased_attention` makes of its arguments."""
        _check(q, k, v, key_bias, dropout)
        B, H, S = k.shape[:3]
        bias = key_bias.to(EXACT.get(q.device.type, torch.float64))
        never = NEVER + LATER * torch.arange(S, dtype=bias.dtype, device=bias.device)
        bias = torch.where(bias.isneginf(), never, bias).expand(B, H, S)
        factor = q.shape[-1] ** -0.5 if scale is None else float(scale)
        if factor <= 0:  # Fused attention may want a positive scale, and gradients of biases are divided by it.
            q, factor = (-q, -factor) if factor else (q * 0, 1.0)
        return cls(q, k, v, bias, factor, dropout)


def _check(q, k, v, key_bias, dropout) -> None:
    if q.dim() != 4 or k.dim() != 4 or k.shape != v.shape:
        raise ShapeError(
            f"{NAME}: q is (B,H,T,d) and k, v are (B,H,S,d), got {list(q.shape)}, {list(k.shape)}, {list(v.shape)}."
        )
    B, H, T, d = q.shape
    if 0 in (B, H, T, d):
        raise ShapeError(f"{NAME}: B, H, T and d must be at least 1, got {[B, H, T, d]}.")
    S = k.shape[2]
    if k.shape != (B, H, S, d) or S < T:
        raise ShapeError(
            f"{NAME}: with q {[B, H, T, d]}, k and v must be {[B, H, 'S', d]} with S >= {T} (every query is one of the "
            f"keys), got {list(k.shape)}."
        )
    if not q.is_floating_point() or q.dtype != k.dtype or q.dtype != v.dtype:
        raise Error(
            f"{NAME}: q, k and v must be of one floating point type, got {q.dtype}, {k.dtype} and {v.dtype}. "
            "Convert them first."
        )
    if key_bias.shape not in ((H, S), (B, H, S), (B, 1, S)):
        raise ShapeError(f"{NAME}: key_bias must be (H,S) = {[H, S]} or (B,H,S), got {list(key_bias.shape)}.")
    if not 0 <= dropout < 1:
        raise Error(f"{NAME}: dropout must be at least 0 and below 1, got {dropout}.")
