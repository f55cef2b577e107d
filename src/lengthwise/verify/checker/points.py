"""A network at single points, and how far its own arithmetic leads from there.

Let c_k = g_k(c_i, c_j, …) be what float64 makes of operation k, and ṽ_k what the model's arithmetic may. Both are off
the exact g_k by at most what rounding.py says of either, and δ_k = ṽ_k - c_k obeys

    δ_k = Σ_p J_kp δ_p + ν_k,    |ν_k| <= roundings of both + what g_k bends by + what J_kp is off by

where J_kp is any matrix near the slope of g_k at c. This is linear, so an output is off by at most Σ_k |M_k| |ν_k|,
where M_k is the sum, over all ways from k to the output, of the products of the J on the way. So what cancels on the
way does cancel, which intervals forget. Of every operation is bounded

    radius    r_k >= |δ_k|: Σ_p |J_kp| r_p + ν_k, or what `bound` finds where that is less
    bending   |g(c + δ) - g(c) - J δ| for |δ| <= r: derived where it is used; infinite where r is too large for that
    slack     for J, and for the products M J, which are made in float32: |fl(M J) - M J| <= γ_n |M| |J| for n terms,
              J's rounding included, so that by |δ_p| <= r_p it is no more than |M| times γ_n Σ_p |J_kp| r_p

The slack is counted with the ν_k, with `SLACK` > γ_n for n up to `WIDEST`; with slopes in float64 (boxes.py) far less
does. What sums of several M are off by is counted as 2^-20 r_k. Bounds are computed in float64 without a look at their
last digits and made wider by 2^-20 (`Arithmetic.up`), and `LEAST` is more than float32 loses to numbers that are too
small. What is no number is infinite.

Shapes: B points, R outputs whose error is asked, n entries, C taps, H heads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .intervals import EPS, _erf  # pyright: ignore[reportPrivateUsage]
from .mean_value import Value
from .rounding import ARITHMETICS, LEAST, Arithmetic

Array = np.ndarray
Slopes = Array | None
"""(B,R,n) in float32 or float64, B = 1 where all points have the same; None is the identity."""
WIDEST = 16384
SLACK = 2 * WIDEST * 2.0**-24
FLOAT64 = ARITHMETICS["float64"]
_number = itertools.count()


class Point:
    """One quantity of a network at B points: c, and the bounds of ν and δ."""

    def __init__(
        self,
        c: Array,
        noise: Array,
        radius: Array | None = None,
        parents: Sequence[Point] = (),
        pull: Callable[[Slopes], list[Slopes]] | None = None,
    ):
        self.c, self.noise, self.parents, self.pull = c, noise, parents, pull
        self.radius = noise if radius is None else radius
        self.number = next(_number)

    @classmethod
    def of(cls, value: Value) -> Point:
        """Whatever a value may be, around its middle."""
        return cls(value.range.mid, FLOAT64.up(value.range.radius))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.c.shape

    @property
    def size(self) -> Array:
        return np.abs(self.c) + self.radius

    def take(self, index: Any) -> Point:
        """These points, as they are: what they came from is forgotten."""
        return Point(self.c[index], self.radius[index])

    def repeated(self, count: int) -> Point:
        return self.take(np.zeros(count, dtype=int))


def bound(out: Point, slopes: Slopes = None) -> Array:
    """(B,R) what |`slopes` δ| of `out` (B,n) is at most: Σ_k |M_k| |ν_k|, backwards through the operations."""
    waiting, known = {out.number: out}, {out.number: slopes}
    off = np.zeros(1)
    while waiting:
        point = waiting.pop(max(waiting))  # made after all that it is made of
        M = known.pop(point.number)
        off = off + _total(M, point.noise + 2.0**-20 * point.radius)  # the latter is what sums of slopes are off by
        if point.pull is None:
            continue
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            for parent, part in zip(point.parents, point.pull(M), strict=True):
                known[parent.number] = _sum(known[parent.number], part) if parent.number in known else part
                waiting[parent.number] = parent
    return FLOAT64.up(off)


def chosen(z: Point, groups: int) -> tuple[Array, Array]:
    """(B,groups) the largest of each group of logits z (B,n), and (B,) by how much the closest is ahead for sure.

    Only differences within a group count, so these are what is bounded.
    """
    (B, n), rows = z.shape, np.arange(z.shape[1])
    picked = np.where(np.isfinite(z.c), z.c, -np.inf).reshape(B, groups, -1).argmax(2)
    best = (picked + np.arange(groups) * (n // groups)).repeat(n // groups, 1)
    slopes = np.zeros((B, n, n), dtype=np.float32)
    slopes[:, rows, rows] = -1
    np.put_along_axis(slopes, best[..., None], np.take_along_axis(slopes, best[..., None], 2) + 1, 2)
    ahead = np.take_along_axis(z.c, best, 1) - z.c - 4 * EPS * np.abs(z.c).max(1, keepdims=True)
    gap = np.where(best == rows, np.inf, ahead - bound(z, slopes)).min(1)
    return np.ascontiguousarray(picked), np.where(np.isnan(gap), -np.inf, gap)


def _total(M: Slopes, noise: Array) -> Array:
    noise = noise.reshape(len(noise), -1)
    if M is None:
        return noise
    M = M.reshape(*M.shape[:2], -1)
    if M.shape[-1] > WIDEST:
        return np.full((max(len(M), len(noise)), M.shape[1]), np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        near = (noise * (1 + 2.0**-20) + LEAST).astype(M.dtype)
        if len(M) == 1:
            off = near @ np.abs(M[0]).T
        else:
            off = (np.abs(M) @ near[..., None])[..., 0]
        off = off.astype(np.float64) * (1 + SLACK) + LEAST * (1 + 2.0**30 * noise.max(-1, keepdims=True))
    return np.where(np.isfinite(off), off, np.inf)


def _sum(a: Slopes, b: Slopes) -> Slopes:
    if a is None or b is None:
        a, b = (b, a) if a is None else (a, b)
        if a is None:
            raise AssertionError("no operation adds a quantity to itself.")
        a = a.copy()
        i = np.arange(a.shape[-1])
        a[:, i, i] += a.dtype.type(1)
        return a
    return a + b


class PointOperations:
    """The operations of a model that computes in this arithmetic (those of `Operations`), at points."""

    dtype: Any = np.float32
    """Of slopes."""
    slack = SLACK

    def __init__(self, arithmetic: Arithmetic):
        self.both = (arithmetic, FLOAT64)
        self._known: dict[int, tuple[Array, Array, Array]] = {}

    def linear(self, x: Point, W: Array, b: Array | None = None) -> Point:
        size, narrow = self._matrices(W)
        c, spread = x.c @ W.T, x.radius @ size.T + LEAST * x.radius.sum(-1, keepdims=True)
        terms = np.abs(x.c) @ size.T + spread
        if b is not None:
            c, terms = c + b, terms + np.abs(b)
        noise = sum(a.linear(terms, W) for a in self.both)

        def pull(M: Slopes) -> list[Slopes]:
            if M is None:
                return [narrow[None]]
            return [(M.reshape(-1, len(W)) @ narrow).reshape(*M.shape[:2], -1)]

        return self._made(c, noise, spread, [x], pull)

    def add(self, x: Point, y: Point) -> Point:
        size = x.size + y.size
        noise = sum(a.add(size) for a in self.both)
        return self._made(x.c + y.c, noise, x.radius + y.radius, [x, y], lambda M: [M, M])

    def relu(self, x: Point) -> Point:
        """The slope is that at c. A point that may cross 0 bends by no more than it goes beyond."""
        bends = np.maximum(x.radius - np.abs(x.c), 0.0)
        return self._made(np.maximum(x.c, 0.0), bends, x.radius, [x], self._scaling(x.c > 0))

    def gelu(self, x: Point) -> Point:
        """|gelu'| <= 1.129."""
        share = (1 + _erf(x.c / np.sqrt(2))) / 2
        slope = share + x.c * np.exp(-(x.c**2) / 2) * 0.3989422804014327
        noise = sum(a.gelu(x.size) for a in self.both) + self.gelu_bends(x) + 2.0**-30 * x.radius
        return self._made(x.c * share, noise, 1.13 * x.radius, [x], self._scaling(slope))

    def gelu_bends(self, x: Point) -> Array:
        """|gelu''| = φ(x) |2 - x²| <= 0.7979."""
        return 0.4 * x.radius**2

    def norm(self, x: Point, w: Array, b: Array, eps: float) -> Point:
        """f = w ρ d + b for d = x - μ, ρ = (|d|²/n + eps)^(-1/2), and x̂ = ρ d.

        A step δ moves d by ε = δ - its mean and ρ^-2 by the factor 1 + t, t = 2a + e, a = ρ x̂·δ/n, e = ρ² |ε|²/n. With
        (1 + t)^(-1/2) = 1 - t/2 + q and |q| <= t² where |t| <= 0.3,

            f(x + δ) = w ρ (d + ε)(1 - a - e/2 + q) + b,    J δ = w ρ (ε - d a)

        and what is left is w [x̂ (q - e/2) - ρ ε (a + e/2 - q)]. x̂ is computed within `off`.
        """
        if x.parents:
            x.radius = np.minimum(x.radius, bound(x).reshape(x.shape))
        n, r = x.shape[-1], x.radius
        d = x.c - _mean(x.c)
        rho = 1 / np.sqrt(_mean(d**2) + eps)
        hat = d * rho
        off = 8 * FLOAT64.gamma(n + 16) * (1 + np.abs(hat) + rho * _mean(np.abs(x.c)))
        near, size = np.abs(hat) + off, np.abs(w) + LEAST
        with np.errstate(over="ignore", invalid="ignore"):
            a, e, moved = rho * _mean(near * r), rho**2 * _mean(r**2), r + _mean(r)
            t = (2 * a + e) * (1 + 2.0**-20)
            fine = (t <= 0.3) & (off.max(-1, keepdims=True) < 2.0**-24)
            q = t**2
            bends = size * (near * (e / 2 + q) + rho * moved * (a + e / 2 + q)) * (1 + 2.0**-20)
            # of J, x̂ is off where it stands beside δ and where it stands before the mean
            unsure = size * rho * (off * _mean(near * r) + near * _mean(off * r))
            top = rho * (1 + 2 * np.minimum(t, 0.3))  # (1 - t)^(-1/2) <= 1 + 2 t there
            noise = sum(each.norm(x.size, np.abs(d) + moved + off / rho, top, w, b) for each in self.both)
            noise = np.where(fine, noise + bends + unsure, np.inf)
            spread = size * rho * (r + _mean(r) + near * _mean(near * r))
        small, wide, scale = hat.astype(self.dtype)[:, None], w.astype(self.dtype), rho.astype(self.dtype)[:, None]

        def pull(M: Slopes) -> list[Slopes]:
            g = np.diag(wide)[None] if M is None else M * wide
            across = (g * small).mean(-1, keepdims=True)
            return [(g - g.mean(-1, keepdims=True) - small * across) * scale]

        return self._made(hat * w + b, noise, spread, [x], pull)

    def attention(self, q: Point, keys: Sequence[Point], values: Sequence[Point], r: Array) -> Point:
        """y = Σ_j w_j v_j, w = softmax of s_j = q · k_j / sqrt(d) + r_j; what q, k and v came from is not followed.

        With |δs_j| <= a <= 1/8 the weights move by at most (e^{2a} - 1) w_j <= 3a w_j, and by at most 3a² w_j off their
        tangent (|d²w_j/dt²| <= 4a² e^{2a} w_j on the way). All weights add up to 1, so v_j may be counted from y.
        """
        H, C = r.shape
        n = q.shape[-1]
        d = n // H
        k, v = np.stack([x.c for x in keys], 1), np.stack([x.c for x in values], 1)
        rk, rv = np.stack([x.radius for x in keys], 1), np.stack([x.radius for x in values], 1)
        heads = lambda x: x.reshape(*x.shape[:-1], H, d).sum(-1) / np.sqrt(d)  # noqa: E731
        s = heads(q.c[:, None] * k) + r.T
        unsure = heads(np.abs(q.c[:, None]) * rk + q.radius[:, None] * (np.abs(k) + rk))
        terms = heads(q.size[:, None] * (np.abs(k) + rk)) + np.abs(r.T)
        unsure = FLOAT64.up(unsure + sum(each.scores(terms, d) for each in self.both))
        w = np.exp(s - s.max(1, keepdims=True))
        w = w / w.sum(1, keepdims=True)
        a = unsure.max(1, keepdims=True)
        fine, most = a <= 0.125, np.minimum(w * (1 + 3 * a), 1.0) * (1 + 2.0**-20)
        rest = np.minimum((1 - w) * (1 + 3 * a) + 2.0**-40, 1.0)
        noise_w = sum(each.softmax(most, rest) for each in self.both)
        wide = lambda x: np.repeat(x, d, -1)  # noqa: E731
        y = (wide(w) * v).sum(1)
        # `way` is off by 2^-40 Σ|v_j|, beside what is relative: that is less than the slack of what is added here.
        far = np.abs(v - y[:, None]) + 2.0**-30 * np.abs(v).sum(1, keepdims=True)
        size = np.abs(v) + rv
        with np.errstate(over="ignore", invalid="ignore"):
            noise = sum(each.mix(size) for each in self.both) + (wide(noise_w) * size).sum(1)
            noise = noise + (wide(w * (1 + 3 * a)) * rv).sum(1) + (wide(w * 3 * a**2) * far).sum(1)
            by_s = (wide(w * unsure) * far).sum(1)
            noise = np.where(wide(fine)[:, 0], noise, np.inf)
        scores = Point(s, unsure)
        way = (wide(w) * (v - y[:, None])).astype(self.dtype)

        def pull(M: Slopes) -> list[Slopes]:
            M = np.eye(n, dtype=self.dtype)[None] if M is None else M
            parts = M.reshape(*M.shape[:2], H, d)
            return [np.stack([(parts * way[:, None, j].reshape(-1, 1, H, d)).sum(-1) for j in range(C)], 2)]

        return self._made(y, noise, by_s, [scores], pull)

    def _matrices(self, W: Array) -> tuple[Array, Array]:
        """|W|, and W as slopes have it."""
        if id(W) not in self._known:
            self._known[id(W)] = (W, np.abs(W), W.astype(self.dtype))
        return self._known[id(W)][1:]

    def _made(
        self, c: Array, noise: Any, spread: Array, parents: list[Point], pull: Callable[[Slopes], list[Slopes]]
    ) -> Point:
        """`spread` is Σ_p |J_kp| r_p."""
        noise = FLOAT64.up(noise + self.slack * spread)
        return Point(c, noise, FLOAT64.up(spread + noise), parents, pull)

    def _scaling(self, slope: Array) -> Callable[[Slopes], list[Slopes]]:
        near = slope.astype(self.dtype)

        def pull(M: Slopes) -> list[Slopes]:
            if M is None:
                M = np.eye(near.shape[-1], dtype=self.dtype)[None]
            return [M * near[:, None]]

        return pull


def _mean(x: Array) -> Array:
    return x.mean(-1, keepdims=True)
