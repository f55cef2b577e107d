"""A network over boxes: its middle point, and how far what is anywhere in the box can lead from there.

What points.py says of the roundings at a point holds of any δ within its bounds: a box is a point that is off by its
radii. So an output is off by Σ_k |M_k| |ν_k| at most, where the ν_k are the radii, the roundings, and what every
operation bends by. Only the last grows with the square of the radii, and no slope is asked for elsewhere than at c.

    here besides      the softmax is followed to its queries and keys; GELU bends by its own second derivative
    slopes            are float64's. They are off by less than 2^-21 of themselves (a norm's ρ by 2^-24, at most, or
                      nothing is known), and γ_n is less than 2^-21 for n up to `WIDEST`: together less than `slack`

Shapes: B boxes, n entries, C taps, H heads, d head width.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .intervals import Interval, down, up
from .points import Array, Point, PointOperations, Slopes, bound

STEEP = 0.8
"""Above |gelu'''(x)| = φ(x) |x³ - 4x|, which is at most 0.7788, where x² = (7 - √33) / 2."""


def enclosed(out: Point) -> Interval:
    """All that `out` (B,n) can be."""
    off = bound(out).reshape(out.shape)
    return Interval(down(out.c - off), up(out.c + off))


def tightened(x: Point) -> Point:
    """With radii that forget nothing of where it came from."""
    x.radius = np.minimum(x.radius, bound(x).reshape(x.shape))
    return x


class BoxOperations(PointOperations):
    dtype = np.float64
    slack = 2.0**-20

    def relu(self, x: Point) -> Point:
        return super().relu(tightened(x))

    def gelu(self, x: Point) -> Point:
        return super().gelu(tightened(x))

    def gelu_bends(self, x: Point) -> Array:
        """Half of |gelu''(c)| + STEEP r, or of its largest, times r²; gelu'' = φ(x) (2 - x²)."""
        curve = np.abs(np.exp(-(x.c**2) / 2) * 0.3989422804014327 * (2 - x.c**2)) + STEEP * x.radius
        return np.minimum(0.5 * curve * (1 + 2.0**-20) + 2.0**-40, 0.4) * x.radius**2

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

        Let all s_i - s_j move by at most R <= 1/8, and s by h t for t from 0 to 1. With m = Σ_i w_i h_i

            dw_j/dt = w_j (h_j - m),    d²w_j/dt² = w_j ((h_j - m)² - Σ_i w_i (h_i - m)²)

        where |h_j - m| <= (1 - w_j) R, and the sum is at most Σ_i w_i (h_i - h_k)² <= (1 - w_k) R² for any k. On the
        way w_j and 1 - w_j are at most e^R times what they are at first. So w_j moves by at most 1.3 w_j (1 - w_j) R,
        and off its tangent by at most 0.73 w_j R² max((1 - w_j)², min_k 1 - w_k). All w add up to 1, so v_j may be
        counted from y.
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
            moved = 1.3 * w * rest * R + 2.0**-40 * R
            bends = 0.73 * w * R**2 * np.maximum(rest**2, rest.min(1, keepdims=True)) + 2.0**-40 * R**2
            most = np.minimum(w + moved, 1.0), np.minimum(rest + moved + 2.0**-40, 1.0)
            noise_w = sum(each.softmax(*most) for each in self.both)
            noise = sum(each.mix(size) for each in self.both) + (wide(noise_w) * size).sum(1)
            noise = noise + (wide(moved) * rv).sum(1) + (wide(bends) * far).sum(1)
            noise = np.where(wide(R <= 0.125)[:, 0], noise, np.inf)
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
