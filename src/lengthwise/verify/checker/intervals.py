"""Interval arithmetic in float64, rounded outward: a set of numbers known by a lower and an upper bound.

    [a] ∘ [b] ⊇ {x ∘ y : x in [a], y in [b]}                          Moore, Interval Analysis

Each bound of +, -, · and √ is computed once, off by half a unit in its last place at most, and then moved outward by a
whole one. A product with a matrix of numbers W is computed from midpoint m and radius r (Rump's way):

    W [m ± r] ⊂ W m ± (|W| (r + γ_n |m|)),      γ_n = n u / (1 - n u),   u = 2^-53

in whatever order its sums are taken. Of float64's exp and tanh it is assumed that they are within `ULPS`.

Shapes: … any, n entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
EPS = 2.0**-52
"""Twice float64's unit roundoff, so that `n EPS` is more than γ_n for all sums that fit a memory."""
LEAST = 2.0**-900
"""Added where a product could be too small for float64."""
ULPS = 8
"""Assumed of exp and tanh as numpy has them, and of math.erf, in float64."""


@dataclass(frozen=True, eq=False)
class Interval:
    lo: Array
    hi: Array

    @classmethod
    def of(cls, x: Any) -> Interval:
        """The numbers themselves."""
        x = np.asarray(x, dtype=np.float64)
        return cls(x, x)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lo.shape

    @property
    def mid(self) -> Array:
        with np.errstate(invalid="ignore"):  # where nothing is known it is no number
            return self.lo / 2 + self.hi / 2

    @property
    def radius(self) -> Array:
        """About `mid`, rounded up."""
        m = self.mid
        return up(np.maximum(up(self.hi - m), up(m - self.lo)))

    @property
    def size(self) -> Array:
        """The largest absolute value."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    def __add__(self, other: Interval) -> Interval:
        return Interval(down(self.lo + other.lo), up(self.hi + other.hi))

    def __sub__(self, other: Interval) -> Interval:
        return Interval(down(self.lo - other.hi), up(self.hi - other.lo))

    def __neg__(self) -> Interval:
        return Interval(-self.hi, -self.lo)

    def __mul__(self, other: Interval) -> Interval:
        a, b, c, d = self.lo * other.lo, self.lo * other.hi, self.hi * other.lo, self.hi * other.hi
        low, high = np.minimum(np.minimum(a, b), np.minimum(c, d)), np.maximum(np.maximum(a, b), np.maximum(c, d))
        return Interval(down(low - LEAST), up(high + LEAST))

    def __getitem__(self, index: Any) -> Interval:
        return Interval(self.lo[index], self.hi[index])

    def reshape(self, *shape: int) -> Interval:
        return Interval(self.lo.reshape(shape), self.hi.reshape(shape))

    def widened(self, radius: Any) -> Interval:
        """By 0 it stays what it is, to the last bit."""
        same = np.equal(radius, 0)
        return Interval(np.where(same, self.lo, down(self.lo - radius)), np.where(same, self.hi, up(self.hi + radius)))

    def meet(self, other: Interval) -> Interval:
        """Returns what is in both, where both hold the same numbers."""
        return Interval(np.maximum(self.lo, other.lo), np.minimum(self.hi, other.hi))

    def inside(self, other: Interval) -> Array:
        """Entry by entry; nothing that is not a number is inside anything."""
        return (self.lo >= other.lo) & (self.hi <= other.hi)

    def sum(self, axis: int) -> Interval:
        n = self.shape[axis]
        off = (n + 2) * EPS * self.size.sum(axis) + LEAST
        return Interval(down(self.lo.sum(axis) - off), up(self.hi.sum(axis) + off))

    def mean(self, axis: int) -> Interval:
        total, n = self.sum(axis), self.shape[axis]
        return Interval(down(total.lo / n), up(total.hi / n))

    def affine(self, W: Array, b: Array | None = None) -> Interval:
        """W x + b for x (…,n), W (m,n)."""
        n, m, flat = W.shape[1], self.mid, (-1, W.shape[1])
        y = (m.reshape(flat) @ W.T).reshape(*self.shape[:-1], len(W))
        off = (self.radius + (n + 4) * EPS * np.abs(m)).reshape(flat) @ np.abs(W).T
        off = off.reshape(y.shape) * (1 + (n + 8) * EPS) + LEAST
        if b is not None:
            y = y + b
            off = (off + 2 * EPS * (np.abs(y) + np.abs(b))) * (1 + 8 * EPS)
        return Interval(down(y - off), up(y + off))

    def square(self) -> Interval:
        a, b = self.lo * self.lo, self.hi * self.hi
        low = np.where((self.lo <= 0) & (self.hi >= 0), 0.0, np.minimum(a, b))
        return Interval(np.maximum(down(low - LEAST), 0.0), up(np.maximum(a, b) + LEAST))

    def reciprocal(self) -> Interval:
        """Returns 1 / x of positive numbers; where 0 is among them the upper bound is infinite."""
        with np.errstate(divide="ignore"):
            high = np.where(self.lo > 0, up(1 / np.maximum(self.lo, 0)), np.inf)
        return Interval(down(1 / self.hi), high)

    def sqrt(self) -> Interval:
        return Interval(np.maximum(down(np.sqrt(np.maximum(self.lo, 0))), 0.0), up(np.sqrt(np.maximum(self.hi, 0))))

    def exp(self) -> Interval:
        with np.errstate(over="ignore", under="ignore"):
            low, high = np.exp(self.lo) * (1 - 2 * ULPS * EPS), np.exp(self.hi) * (1 + 2 * ULPS * EPS)
        return Interval(np.maximum(down(low - LEAST), 0.0), up(high + LEAST))

    def tanh(self) -> Interval:
        low, high = np.tanh(self.lo), np.tanh(self.hi)
        low, high = low - 2 * ULPS * EPS * np.abs(low), high + 2 * ULPS * EPS * np.abs(high)
        return Interval(np.maximum(down(low - LEAST), -1.0), np.minimum(up(high + LEAST), 1.0))

    def sigmoid(self) -> Interval:
        """1 / (1 + exp(-x)), which grows with x."""
        one = Interval.of(1.0)
        return (one + (-self).exp()).reciprocal().meet(Interval.of(0.0).hull(one))

    def relu(self) -> Interval:
        return Interval(np.maximum(self.lo, 0.0), np.maximum(self.hi, 0.0))

    def hull(self, other: Interval) -> Interval:
        return Interval(np.minimum(self.lo, other.lo), np.maximum(self.hi, other.hi))


def down(x: Array) -> Array:
    return np.nextafter(x, -np.inf)


def up(x: Array) -> Array:
    return np.nextafter(x, np.inf)


def concatenate(parts: Sequence[Interval], axis: int) -> Interval:
    return Interval(np.concatenate([p.lo for p in parts], axis), np.concatenate([p.hi for p in parts], axis))
