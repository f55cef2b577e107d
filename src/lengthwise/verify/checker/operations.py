"""What recurrences and cascades are made of, on intervals: each operation with its values, its rounding and its slopes.

Every operation is a line v = g(…) + e of a network (mean_value.py): g on intervals, a bound of what the model's own
arithmetic rounds (rounding.py), and from the slopes of an output by v those by what v is made of.

Shapes: B boxes, D outputs, n entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .intervals import EPS, Array, Interval, concatenate, zeros
from .mean_value import Pull, Value, tightened
from .rounding import BOUNDED, Arithmetic


class Operations:
    """The operations of a model that computes in this arithmetic."""

    def __init__(self, arithmetic: Arithmetic):
        self.arithmetic, self.u = arithmetic, arithmetic.u

    def linear(self, x: Value, W: Array, b: Array | None = None) -> Value:
        terms = _product(x.range.size, np.abs(W)) + (0 if b is None else np.abs(b))
        noise = self.arithmetic.linear(terms, W)
        out = self._made(lambda v: v.affine(W, b), noise, [x], lambda s: [s.affine(W.T)])
        return out if x.pull is None else tightened(out)

    def linear_of_both(self, x: Value, W: Array, b: Array, h: Value, U: Array, c: Array) -> Value:
        """W x + b + U h + c as one sum, whose terms may be taken in any order, those of x and of h mixed."""
        terms = _product(x.range.size, np.abs(W)) + np.abs(b) + _product(h.range.size, np.abs(U)) + np.abs(c)
        noise = self.arithmetic.linear(terms, np.concatenate([W, U], 1))
        apply = lambda v, w: v.affine(W, b) + w.affine(U, c)  # noqa: E731
        return tightened(self._made(apply, noise, [x, h], lambda s: [s.affine(W.T), s.affine(U.T)]))

    def add(self, x: Value, y: Value) -> Value:
        out = x.range + y.range
        return tightened(self._made(lambda v, w: v + w, self.arithmetic.add(out.size), [x, y], lambda s: [s, s]))

    def multiply(self, x: Value, y: Value) -> Value:
        noise = self._bound(self.u * (x.range * y.range).size)
        a, b = x.range, y.range
        return self._made(lambda v, w: v * w, noise, [x, y], lambda s: [s * _wide(b), s * _wide(a)])

    def relu(self, x: Value) -> Value:
        a = x.range
        slope = Interval((a.lo > 0).astype(float), (a.hi > 0).astype(float))
        return self._made(Interval.relu, np.zeros(x.shape), [x], lambda s: [s * _wide(slope)])

    def tanh(self, x: Value) -> Value:
        t, one = x.range.tanh(), Interval.of(1.0)
        noise = self._bound(np.full(x.shape, BOUNDED * self.u))
        return self._made(Interval.tanh, noise, [x], lambda s: [s * _wide(one - t.square())])

    def sigmoid(self, x: Value) -> Value:
        t, one = x.range.sigmoid(), Interval.of(1.0)
        noise = self._bound(np.full(x.shape, BOUNDED * self.u))
        return self._made(Interval.sigmoid, noise, [x], lambda s: [s * _wide(t * (one - t))])

    def lerp(self, n: Value, h: Value, z: Value) -> Value:
        """(1 - z) n + z h; also computed as n + z (h - n)."""

        def apply(n: Interval, h: Interval, z: Interval) -> Interval:
            """Linear in z, so its extremes are at the ends of z."""
            return _between(n, h, Interval.of(z.lo)).hull(_between(n, h, Interval.of(z.hi)))

        noise = self._bound(self.arithmetic.gamma(8) * 2 * (n.range.size + h.range.size) * np.maximum(1, z.range.size))
        a, b, c, one = n.range, h.range, z.range, Interval.of(1.0)
        pull = lambda s: [s * _wide(one - c), s * _wide(c), s * _wide(b - a)]  # noqa: E731
        return self._made(apply, noise, [n, h, z], pull)

    def norm(self, x: Value, w: Array, b: Array, eps: float) -> Value:
        """(x - μ) ρ w + b, ρ = 1 / sqrt(σ² + eps), μ and σ² over the last axis."""
        n = x.shape[-1]

        def centred(v: Interval) -> tuple[Interval, Interval]:
            d = v - _kept(v.mean(-1))
            share = (n - 1) / n
            # Of each entry 1 - 1/n enters its own difference from the mean.
            r = v.radius
            off = r * share + (r.sum(-1)[..., None] - r) / n
            m = v.mid
            middle = Interval.of(m) - _kept(Interval.of(m).mean(-1))
            d = d.meet(middle.widened(off * (1 + (n + 16) * EPS) + n * EPS * np.abs(r).max(-1)[..., None]))
            return d, _kept((d.square().mean(-1) + Interval.of(eps)).sqrt().reciprocal())

        def apply(v: Interval) -> Interval:
            d, rho = centred(v)
            return d * rho * Interval.of(w) + Interval.of(b)

        d, rho = centred(x.range)
        noise = self.arithmetic.norm(x.range.size, d.size, rho.hi, w, b)
        hat = d * rho

        def pull(s: Interval) -> list[Interval]:
            s = s * Interval.of(w)
            across = (s * _wide(hat)).mean(-1)
            return [(s - _kept(s.mean(-1)) - _wide(hat) * _kept(across)) * _wide(rho)]

        return tightened(self._made(apply, noise, [x], pull))

    def join(self, parts: Sequence[Value]) -> Value:
        """(B,n) each, one after another."""
        ends = np.cumsum([p.shape[-1] for p in parts]).tolist()
        exact = concatenate([p.range for p in parts], -1)
        points = [p.point for p in parts]
        point = None if any(p is None for p in points) else concatenate([p for p in points if p is not None], -1)
        pull = lambda s: [s[..., a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]  # noqa: E731
        return Value(exact, np.zeros(exact.shape), point, parts, pull)

    def split(self, x: Value, ends: Sequence[int]) -> list[Value]:
        """x (B,n), cut before each of these entries."""
        places = list(zip([0, *ends], [*ends, x.shape[-1]], strict=True))

        def pull_to(a: int, b: int) -> Pull:
            def pull(s: Interval) -> list[Interval]:
                rest = [zeros((*s.shape[:-1], a)), s, zeros((*s.shape[:-1], x.shape[-1] - b))]
                return [concatenate(rest, -1)]

            return pull

        return [
            Value(
                x.range[..., a:b],
                np.zeros((*x.shape[:-1], b - a)),
                None if x.point is None else x.point[..., a:b],
                [x],
                pull_to(a, b),
            )
            for a, b in places
        ]

    def _made(self, apply: Callable[..., Interval], noise: Array, parents: Sequence[Value], pull: Pull) -> Value:
        points = [p.point for p in parents]
        point = None if any(p is None for p in points) else apply(*points)
        value = Value(apply(*(p.range for p in parents)), noise, point, parents, pull)
        return value

    def _bound(self, noise: Array) -> Array:
        return self.arithmetic.up(noise)


def _product(x: Array, W: Array) -> Array:
    """x (…,n) with W (m,n), of numbers that are not negative: (…,m)."""
    return (x.reshape(-1, x.shape[-1]) @ W.T).reshape(*x.shape[:-1], len(W))


def _wide(x: Interval) -> Interval:
    """(B,…) as (B,1,…), for all outputs alike."""
    return x[:, None]


def _kept(x: Interval) -> Interval:
    return x[..., None]


def _between(n: Interval, h: Interval, z: Interval) -> Interval:
    one = Interval.of(1.0)
    return (one - z) * n + z * h
