"""A network at points and over boxes around them: how far a box, and what arithmetic rounds, lead from there.

Let c_k = g_k(c_i, c_j, …) be what float64 makes of operation k, and ṽ_k what the model's arithmetic may. Both are off
the exact g_k by at most what rounding.py says of either, and δ_k = ṽ_k - c_k obeys

    δ_k = Σ_p J_kp δ_p + ν_k,    |ν_k| <= roundings of both + what g_k bends by + what J_kp is off by

where J_kp is any matrix near the slope of g_k at c. This is linear, so an output is off by at most Σ_k |M_k| |ν_k|,
where M_k is the sum, over all ways from k to the output, of the products of the J on the way. So what cancels on the
way does cancel, which intervals forget. A box is a point that is off by its radii. Of every operation is bounded

    radius    r_k >= |δ_k|: Σ_p |J_kp| r_p + ν_k, or what `bound` finds where that is less
    bending   |g(c + δ) - g(c) - J δ| for |δ| <= r: derived where it is used; infinite where r is too large for that.
              Only this grows with the square of the radii, and no slope is asked for elsewhere than at c
    slack     slopes are float64's. They are off by less than 2^-21 of themselves (a norm's ρ by 2^-24, at most, or
              nothing is known), and γ_n is less than 2^-21 for n up to `WIDEST`: together less than `SLACK`, by which
              |δ_p| <= r_p is counted with the ν_k as SLACK Σ_p |J_kp| r_p

What sums of several M are off by is counted as 2^-20 r_k. Bounds are computed in float64 without a look at their last
digits and made wider by 2^-20 (`Arithmetic.up`). What is no number is infinite.

Shapes: B points, R outputs whose error is asked, n entries, C taps, H heads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .intervals import EPS, Interval, down, up
from .rounding import ARITHMETICS, LEAST, Arithmetic

Array = np.ndarray
Slopes = Array | None
"""(B,R,n), B = 1 where all points have the same; None is the identity."""
WIDEST = 16384
SLACK = 2.0**-20
FLOAT64 = ARITHMETICS["float64"]
_number = itertools.count()
_erf_of_each = np.frompyfunc(math.erf, 1, 1)


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
    def of(cls, x: Interval) -> Point:
        """Whatever is in an interval, around its middle."""
        return cls(x.mid, FLOAT64.up(x.radius))

    @classmethod
    def at(cls, c: Array, radius: Array | None = None) -> Point:
        """The point c, or a box around it."""
        return cls(c, np.zeros(c.shape) if radius is None else radius)

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


def enclosed(out: Point) -> Interval:
    """All that `out` (B,n) can be."""
    off = bound(out).reshape(out.shape)
    return Interval(down(out.c - off), up(out.c + off))


def tightened(x: Point) -> Point:
    """With radii that forget nothing of where it came from."""
    x.radius = np.minimum(x.radius, bound(x).reshape(x.shape))
    return x


def chosen(z: Point, groups: int) -> tuple[Array, Array]:
    """(B,groups) the largest of each group of logits z (B,n), and (B,) by how much the closest is ahead for sure.

    Only differences within a group count, so these are what is bounded.
    """
    (B, n), rows = z.shape, np.arange(z.shape[1])
    picked = np.where(np.isfinite(z.c), z.c, -np.inf).reshape(B, groups, -1).argmax(2)
    best = (picked + np.arange(groups) * (n // groups)).repeat(n // groups, 1)
    slopes = np.zeros((B, n, n))
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
        near = noise * (1 + 2.0**-20) + LEAST
        if len(M) == 1:
            off = near @ np.abs(M[0]).T
        else:
            off = (np.abs(M) @ near[..., None])[..., 0]
        off = off * (1 + SLACK) + LEAST * (1 + 2.0**30 * noise.max(-1, keepdims=True))
    return np.where(np.isfinite(off), off, np.inf)


def _sum(a: Slopes, b: Slopes) -> Slopes:
    if a is None or b is None:
        a, b = (b, a) if a is None else (a, b)
        if a is None:
            raise AssertionError("no operation adds a quantity to itself.")
        a = a.copy()
        i = np.arange(a.shape[-1])
        a[:, i, i] += 1
        return a
    return a + b


def _steepest(c: Array, r: Array) -> Array:
    """The largest |gelu''(x)| = φ(x) |2 - x²| for |x - c| <= r: its turning points are where x is 0 or ±2."""
    low, high = c - r, c + r
    ends = (0.3989422804014327 * np.exp(-(x**2) / 2) * np.abs(2 - x**2) for x in (low, high))
    turns = (np.where((low <= x) & (x <= high), top, 0.0) for x, top in ((0.0, 0.8), (2.0, 0.108), (-2.0, 0.108)))
    return np.maximum.reduce([*ends, *turns])


class PointOperations:
    """The operations of a tree that computes in this arithmetic."""

    wide = True
    """Whether points may be boxes so wide that it pays to know well what an activation is given."""

    def __init__(self, arithmetic: Arithmetic):
        self.both = (arithmetic, FLOAT64)

    def linear(self, x: Point, W: Array, b: Array | None = None) -> Point:
        size = np.abs(W)
        c, spread = x.c @ W.T, x.radius @ size.T + LEAST * x.radius.sum(-1, keepdims=True)
        terms = np.abs(x.c) @ size.T + spread
        if b is not None:
            c, terms = c + b, terms + np.abs(b)
        noise = sum(a.linear(terms, W) for a in self.both)

        def pull(M: Slopes) -> list[Slopes]:
            if M is None:
                return [W[None]]
            return [(M.reshape(-1, len(W)) @ W).reshape(*M.shape[:2], -1)]

        return self._made(c, noise, spread, [x], pull)

    def add(self, x: Point, y: Point) -> Point:
        size = x.size + y.size
        noise = sum(a.add(size) for a in self.both)
        return self._made(x.c + y.c, noise, x.radius + y.radius, [x, y], lambda M: [M, M])

    def relu(self, x: Point) -> Point:
        """The slope is that at c. A point that may cross 0 bends by no more than it goes beyond."""
        x = tightened(x) if self.wide else x
        bends = np.maximum(x.radius - np.abs(x.c), 0.0)
        return self._made(np.maximum(x.c, 0.0), bends, x.radius, [x], self._scaling(x.c > 0))

    def gelu(self, x: Point) -> Point:
        """|gelu'| <= 1.129. It bends by half of the largest |gelu''| within the box times r²."""
        x = tightened(x) if self.wide else x
        share = (1 + np.asarray(_erf_of_each(x.c / np.sqrt(2)), dtype=np.float64)) / 2
        density = np.exp(-(x.c**2) / 2) * 0.3989422804014327
        bends = (0.5 * _steepest(x.c, x.radius) * (1 + 2.0**-20) + 2.0**-40) * x.radius**2
        noise = sum(a.gelu(x.size) for a in self.both) + bends + 2.0**-30 * x.radius
        return self._made(x.c * share, noise, 1.13 * x.radius, [x], self._scaling(share + x.c * density))

    def norm(self, x: Point, w: Array, b: Array, eps: float) -> Point:
        """f = w ρ d + b for d = x - μ, ρ = (|d|²/n + eps)^(-1/2), and x̂ = ρ d.

        A step δ moves d by ε = δ - its mean. With a = x̂·ρε/n, τ = ρε - a x̂ and v = |τ|²/n + eps ρ² a², it makes
        ρ^-2 greater by the factor (1 + a)² + v. So for |a| < 1

            f(x + δ) = w ((1 + a) x̂ + τ) ((1 + a)² + v)^(-1/2) + b,    J δ = w τ

        and what is left is w (τ (1 - p) / (1 + a) - τ - p x̂) with 0 <= p <= v / (2 (1 + a)²).
        """
        n, r = x.shape[-1], x.radius
        d = x.c - _mean(x.c)
        rho = 1 / np.sqrt(_mean(d**2) + eps)
        hat = d * rho
        off = 8 * FLOAT64.gamma(n + 16) * (1 + np.abs(hat) + rho * _mean(np.abs(x.c)))
        near, size = np.abs(hat) + off, np.abs(w) + LEAST
        along = np.eye(n) - 1 / n - hat[:, :, None] * hat[:, None] / n
        with np.errstate(over="ignore", invalid="ignore"):
            # x̂ is off where it stands beside δ and where it stands before the mean
            unsure = off * _mean(near * r) + near * _mean(off * r)
            a = rho * (bound(x, hat[:, None] / n) + _mean(off * r)) * (1 + 2.0**-20)
            tau = rho * (bound(x, along) + unsure) * (1 + 2.0**-20)
            fine = (a <= 0.9) & (off.max(-1, keepdims=True) < 2.0**-24)
            rest = 1 - np.minimum(a, 0.9)
            p = (_mean(tau**2) + eps * rho**2 * a**2) / (2 * rest**2) * (1 + 2.0**-20)
            bends = size * (p * near + tau * (a + p) / rest) * (1 + 2.0**-20)
            moved, top = r + _mean(r), rho / rest * (1 + 2.0**-20)
            noise = sum(each.norm(x.size, np.abs(d) + moved + off / rho, top, w, b) for each in self.both)
            noise = np.where(fine, noise + bends + size * rho * unsure, np.inf)
            spread = size * rho * (moved + near * _mean(near * r))

        def pull(M: Slopes) -> list[Slopes]:
            g = np.diag(w)[None] if M is None else M * w
            across = (g * hat[:, None]).mean(-1, keepdims=True)
            return [(g - g.mean(-1, keepdims=True) - hat[:, None] * across) * rho[:, None]]

        made = self._made(hat * w + b, noise, spread, [x], pull)
        made.radius = np.minimum(made.radius, FLOAT64.up(size * tau + made.noise))
        return made

    def attention(self, q: Point, keys: Sequence[Point], values: Sequence[Point], r: Array) -> Point:
        return self._mixed(self._scores(q, keys, r), values)

    def _scores(self, q: Point, keys: Sequence[Point], r: Array) -> Point:
        """(B,C,H) q · k_j / sqrt(d) + r_j."""
        H, n, C = len(r), q.shape[-1], len(keys)
        d = n // H
        scale = 1 / np.sqrt(d)
        k, rk = np.stack([x.c for x in keys], 1), np.stack([x.radius for x in keys], 1)
        heads = lambda x: x.reshape(*x.shape[:-1], H, d).sum(-1) * scale  # noqa: E731
        near, off = np.abs(q.c)[:, None], q.radius[:, None]
        terms = heads((near + off) * (np.abs(k) + rk)) + np.abs(r.T)
        noise = sum(each.scores(terms, d) for each in self.both) + heads(off * rk)
        spread = heads(near * rk + off * np.abs(k))

        def pull(M: Slopes) -> list[Slopes]:
            assert M is not None
            M = np.repeat(M.reshape(*M.shape[:2], C, H) * scale, d, -1)
            return [(M * k[:, None]).sum(2), *(M[:, :, j] * q.c[:, None] for j in range(C))]

        return self._made(heads(q.c[:, None] * k) + r.T, noise, spread, [q, *keys], pull)

    def _mixed(self, s: Point, values: Sequence[Point]) -> Point:
        """(B,n) Σ_j w_j v_j, w the softmax of s over the taps.

        Let all s_i - s_j move by at most R <= 4, and s by h t for t from 0 to 1. With m = Σ_i w_i h_i

            dw_j/dt = w_j (h_j - m),    d²w_j/dt² = w_j ((h_j - m)² - Σ_i w_i (h_i - m)²)

        where |h_j - m| <= (1 - w_j) R, and the sum is at most Σ_i w_i (h_i - h_k)² <= (1 - w_k) R² for any k. On the
        way w_j and 1 - w_j are at most e^R times what they are at first, and at most 1. With these bounds for both w_j
        moves by at most w_j (1 - w_j) R, and off its tangent by at most w_j R² max((1 - w_j)², min_k 1 - w_k) / 2. All
        w add up to 1, so v_j may be counted from y.
        """
        _, C, H = s.shape
        v, rv = np.stack([x.c for x in values], 1), np.stack([x.radius for x in values], 1)
        n = v.shape[-1]
        wide = lambda x: np.repeat(x, n // H, -1)  # noqa: E731
        w = np.exp(s.c - s.c.max(1, keepdims=True))
        w = w / w.sum(1, keepdims=True)
        rest, R = 1 - w, self._moves(s)
        y = (wide(w) * v).sum(1)
        size = np.abs(v) + rv
        far = np.abs(v - y[:, None]) + 2.0**-24 * np.abs(v).sum(1, keepdims=True)
        with np.errstate(over="ignore", invalid="ignore"):
            rise = np.exp(np.minimum(R, 4.0)) * (1 + 2.0**-20)
            large, others = np.minimum(w * rise, 1.0), np.minimum(rest * rise, 1.0)
            moved = large * others * R + 2.0**-40 * R
            bends = 0.5 * large * R**2 * np.maximum(others**2, others.min(1, keepdims=True)) * (1 + 2.0**-20)
            bends = bends + 2.0**-40 * R**2
            most = np.minimum(w + moved, 1.0), np.minimum(rest + moved + 2.0**-40, 1.0)
            noise_w = sum(each.softmax(*most) for each in self.both)
            noise = sum(each.mix(size) for each in self.both) + (wide(noise_w) * size).sum(1)
            noise = noise + (wide(moved) * rv).sum(1) + (wide(bends) * far).sum(1)
            noise = np.where(wide(R <= 4.0)[:, 0], noise, np.inf)
            spread = (wide(w) * rv).sum(1) + (wide(w * s.radius) * far).sum(1)
        way = wide(w) * (v - y[:, None])

        def pull(M: Slopes) -> list[Slopes]:
            M = np.eye(n)[None] if M is None else M
            by = M[:, :, None] * way[:, None]
            by = by.reshape(*by.shape[:-1], H, n // H).sum(-1)
            return [by, *(M * wide(w[:, None, j]) for j in range(C))]

        return self._made(y, noise, spread, [s, *values], pull)

    def _moves(self, s: Point) -> Array:
        """(B,1,H) by how much differences of scores can move: those to s_0, or twice that for two others."""
        B, C, H = s.shape
        if C == 1:
            return np.zeros((B, 1, H))
        one = np.eye(C * H)
        moves = bound(s, (one[H:] - np.tile(one[:H], (C - 1, 1)))[None])
        return moves.reshape(B, C - 1, H).max(1, keepdims=True) * (1 if C == 2 else 2)

    def _made(
        self, c: Array, noise: Any, spread: Array, parents: list[Point], pull: Callable[[Slopes], list[Slopes]]
    ) -> Point:
        """`spread` is Σ_p |J_kp| r_p."""
        noise = FLOAT64.up(noise + SLACK * spread)
        return Point(c, noise, FLOAT64.up(spread + noise), parents, pull)

    def _scaling(self, slope: Array) -> Callable[[Slopes], list[Slopes]]:
        return lambda M: [(np.eye(slope.shape[-1])[None] if M is None else M) * slope[:, None]]


def _mean(x: Array) -> Array:
    return x.mean(-1, keepdims=True)
