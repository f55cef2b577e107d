"""What a position encoding does to the logits of attention:

    logit_ts = scale_t (q_t · k_s) / sqrt(d) + bias_ts

A bias says what it is, so that attention can take the fastest way it has for it: one by the key alone needs no T×S
matrix at all. `dense()` is the way for everybody else.

Shapes: B batch, T queries, S keys, H heads, N distances.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class KeyBias:
    """A bias that depends on the key alone, the same for every query."""

    values: Tensor
    """(H,S) or (B,H,S)"""

    def dense(self) -> Tensor:
        return self.values.unsqueeze(-2)


@dataclass(frozen=True, eq=False)
class DistanceBias:
    """A bias that depends on how far the key stands before the query."""

    values: Tensor
    """(H,N) by distance; the last one stands for all distances beyond."""
    queries: Tensor
    """(B,T) ids"""
    keys: Tensor
    """(B,S) ids"""

    def dense(self) -> Tensor:
        return self.values[:, distances(self.queries, self.keys, self.values.shape[1])].transpose(0, 1)


@dataclass(frozen=True, eq=False)
class DenseBias:
    """A bias of every pair, such as one that depends on the query's vector."""

    values: Tensor
    """(B,H,T,S)"""

    def dense(self) -> Tensor:
        return self.values


Bias = KeyBias | DistanceBias | DenseBias


def added(one: Bias | None, other: Bias | None) -> Bias | None:
    """The sum of two biases; None: there is none."""
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, KeyBias) and isinstance(other, KeyBias):
        return KeyBias(one.values + other.values)
    total, keys = one.dense() + other.dense(), one if isinstance(one, KeyBias) else other
    if isinstance(keys, KeyBias):
        # Counted from each query's own key, which softmax ignores: half precision has digits for near keys alone.
        S, T = total.shape[-1], total.shape[-2]
        total = total - keys.values[..., S - T :, None].detach()
    return DenseBias(total)


@dataclass(frozen=True, eq=False)
class Score:
    scale: Tensor | None = None
    """(B,T) a factor for each query; None: 1."""
    bias: Bias | None = None


NOTHING = Score()
"""Of an encoding that leaves the logits as they are."""


def distances(queries: Tensor, keys: Tensor, count: int) -> Tensor:
    """(B,T,S) integers in 0 … count - 1; pairs beyond them, and keys after their query, take the nearest."""
    return (queries[:, :, None] - keys[:, None, :]).clamp(0, count - 1)
