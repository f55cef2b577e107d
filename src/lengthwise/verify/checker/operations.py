"""What recurrences and cascades are made of, on intervals: the values of each operation, and what it rounds.

Every operation is f(…) ± e: f on intervals, and e a bound of what the model's own arithmetic rounds (rounding.py).

Shapes: B boxes, n entries.
"""

from __future__ import annotations

import numpy as np

from .intervals import EPS, Array, Interval
from .rounding import BOUNDED, Arithmetic


class Operations:
    """The operations of a model that computes in this arithmetic."""

    def __init__(self, arithmetic: Arithmetic):
        self.arithmetic, self.u = arithmetic, arithmetic.u

    def linear(self, x: Interval, W: Array, b: Array | None = None) -> Interval:
        terms = _product(x.size, np.abs(W)) + (0 if b is None else np.abs(b))
        return x.affine(W, b).widened(self.arithmetic.linear(terms, W))

    def linear_of_both(self, x: Interval, W: Array, b: Array, h: Interval, U: Array, c: Array) -> Interval:
        """W x + b + U h + c as one sum, whose terms may be taken in any order, those of x and of h mixed."""
        terms = _product(x.size, np.abs(W)) + np.abs(b) + _product(h.size, np.abs(U)) + np.abs(c)
        return (x.affine(W, b) + h.affine(U, c)).widened(self.arithmetic.linear(terms, np.concatenate([W, U], 1)))

    def add(self, x: Interval, y: Interval) -> Interval:
        out = x + y
        return out.widened(self.arithmetic.add(out.size))

    def multiply(self, x: Interval, y: Interval) -> Interval:
        out = x * y
        return out.widened(self.arithmetic.up(self.u * out.size))

    def relu(self, x: Interval) -> Interval:
        return x.relu()

    def tanh(self, x: Interval) -> Interval:
        return x.tanh().widened(self.arithmetic.up(np.full(x.shape, BOUNDED * self.u)))

    def sigmoid(self, x: Interval) -> Interval:
        return x.sigmoid().widened(self.arithmetic.up(np.full(x.shape, BOUNDED * self.u)))

    def lerp(self, n: Interval, h: Interval, z: Interval) -> Interval:
        """(1 - z) n + z h, which is linear in z: its extremes are at the ends of z. Also computed as n + z (h - n)."""
        out = _between(n, h, Interval.of(z.lo)).hull(_between(n, h, Interval.of(z.hi)))
        return out.widened(self.arithmetic.up(self.arithmetic.gamma(8) * 2 * (n.size + h.size) * np.maximum(1, z.size)))

    def norm(self, x: Interval, w: Array, b: Array, eps: float) -> Interval:
        """(x - μ) ρ w + b, ρ = 1 / sqrt(σ² + eps), μ and σ² over the last axis."""
        n, r, m = x.shape[-1], x.radius, x.mid
        # Of each entry 1 - 1/n enters its own difference from the mean.
        off = r * ((n - 1) / n) + (r.sum(-1)[..., None] - r) / n
        off = off * (1 + (n + 16) * EPS) + n * EPS * np.abs(r).max(-1)[..., None]
        d = (x - _kept(x.mean(-1))).meet((Interval.of(m) - _kept(Interval.of(m).mean(-1))).widened(off))
        rho = _kept((d.square().mean(-1) + Interval.of(eps)).sqrt().reciprocal())
        noise = self.arithmetic.norm(x.size, d.size, rho.hi, w, b)
        return (d * rho * Interval.of(w) + Interval.of(b)).widened(noise)


def _product(x: Array, W: Array) -> Array:
    """x (…,n) with W (m,n), of numbers that are not negative: (…,m)."""
    return (x.reshape(-1, x.shape[-1]) @ W.T).reshape(*x.shape[:-1], len(W))


def _kept(x: Interval) -> Interval:
    return x[..., None]


def _between(n: Interval, h: Interval, z: Interval) -> Interval:
    return (Interval.of(1.0) - z) * n + z * h
