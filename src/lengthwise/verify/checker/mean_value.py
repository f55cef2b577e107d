"""Quantities of a network over boxes of inputs, and the mean value theorem on them.

A network is v_k = g_k(v_i, v_j, …) + e_k, one line for every operation (operations.py), where e_k is what the model's
own arithmetic rounds; of an input e is its distance from the centre. So all values are functions of the e alone, and
for |e| <= noise

    v(e) ∈ v(0) + Σ_k ∂v/∂e_k · [-noise_k, noise_k]

with slopes taken over all that the values can be. `Value.range` encloses v_k step by step, which forgets that values
depend on one another; `mean_value` is the formula, backwards through the operations, and forgets less where the sets
are small. What bends (ReLU) has all slopes between its two.

Shapes: B boxes, D numbers of an output.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .intervals import EPS, Array, Interval, down, up

Pull = Callable[[Interval], "list[Interval]"]
"""From the slopes of an output by a value, (B,D,…), to its slopes by each of the value's parents."""
_number = itertools.count()


class Value:
    """One quantity of a network, for B boxes."""

    def __init__(
        self,
        exact: Interval,
        noise: Array,
        point: Interval | None = None,
        parents: Sequence[Value] = (),
        pull: Pull | None = None,
    ):
        self.exact, self.noise, self.point, self.parents, self.pull = exact, noise, point, parents, pull
        self.range = exact.widened(noise)
        self.number = next(_number)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.range.shape

    def take(self, index: Any) -> Value:
        """These boxes of it, as they are: what they came from is forgotten."""
        return Value(self.exact[index], self.noise[index])


def box(centre: Array, radius: Array) -> Value:
    point = Interval.of(centre)
    return Value(point, np.asarray(radius, dtype=np.float64), point)


def constant(x: Interval, noise: Array | float = 0.0) -> Value:
    return Value(x, np.broadcast_to(np.asarray(noise, dtype=np.float64), x.shape), x)


def mean_value(out: Value) -> Interval:
    """`out` (B,…) of D entries by the formula above, met with its range."""
    if out.point is None:
        return out.range
    B, D = out.shape[0], int(np.prod(out.shape[1:]))
    slopes = {out.number: Interval.of(np.broadcast_to(np.eye(D), (B, D, D))).reshape(B, D, *out.shape[1:])}
    waiting: dict[int, Value] = {out.number: out}
    off = np.zeros((B, D))
    while waiting:
        value = waiting.pop(max(waiting))  # made after all that it is made of
        slope = slopes.pop(value.number)
        if value.noise.any():
            flat = np.broadcast_to(value.noise, value.shape).reshape(B, 1, -1)
            with np.errstate(invalid="ignore", over="ignore"):  # 0 times infinity is no bound, and seen as such below
                terms = slope.size.reshape(B, D, -1) * flat
            off += terms.sum(-1) * (1 + (terms.shape[-1] + 8) * EPS)
        if value.pull is None:
            continue
        for parent, part in zip(value.parents, value.pull(slope), strict=True):
            known = slopes.get(parent.number)
            slopes[parent.number] = part if known is None else known + part
            waiting[parent.number] = parent
    off = np.where(np.isfinite(off), off * (1 + 64 * EPS), np.inf).reshape(out.shape)
    return out.range.meet(Interval(down(out.point.lo - off), up(out.point.hi + off)))


def tightened(value: Value) -> Value:
    """With its range by the mean value theorem: the narrower it is known, the narrower are slopes taken over it."""
    value.range = mean_value(value)
    return value
