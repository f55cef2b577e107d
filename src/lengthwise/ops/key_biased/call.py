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


def exact(key_bias: Tensor, k: Tensor) -> Tensor:
    """(B,H,S) in fp64, finite."""
    bias = key_bias.to(EXACT.get(k.device.type, torch.float64))
    never = NEVER + LATER * torch.arange(k.shape[2], dtype=bias.dtype, device=bias.device)
    return torch.where(bias.isneginf(), never, bias).expand(k.shape[:3])


def check(q, k, v, key_bias, dropout) -> None:
    """Raises where the arguments of `key_biased_attention` do not fit together."""
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
