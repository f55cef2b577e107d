"""Affine forms: sets of vectors as a centre, a linear image of a cube, and a box around each of its points.

    { c + Σ_k ε_k G_k + δ :  |ε_k| <= 1,  |δ_i| <= e_i }

For each ε the number that the model computes, in its own arithmetic and in any order, lies within e of the linear part.
So what enters twice cancels, as it must where a residual meets a norm. Every operation takes forms to a form: the
linear part is exact but for float64, which e covers; what is not linear goes into e by local second derivatives,

    f(x) ∈ f(c) + f'(c)(x - c) ± 1/2 max|f''| r²,        xy ∈ c_x c_y + c_x (y - c_y) + c_y (x - c_x) ± r_x r_y

and so does the rounding (enclosures.py). `spread` turns e into further directions of G, so that it too can cancel.

Shapes: N sets side by side, K directions, D entries of a vector; `*` any further axes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from .enclosures import EXACT, OWN, ROOT_ULPS, SMOOTH, TERMS, ULPS, Arithmetic, gamma, upper


class Directions:
    """How many directions the forms of one calculation have. Each belongs to one origin: none is given out twice."""

    def __init__(self) -> None:
        self.count = 0

    def take(self, more: int) -> slice:
        self.count += more
        if self.count > TERMS:
            raise ValueError(f"a form has at most {TERMS} directions, for the widening covers sums of so many")
        return slice(self.count - more, self.count)


@dataclass(frozen=True)
class Affine:
    c: Tensor
    """(N,*)"""
    G: Tensor
    """(N,K,*). Directions that it lacks at its end are zero."""
    e: Tensor
    """(N,*), at least 0."""
    directions: Directions
    arithmetic: Arithmetic

    @classmethod
    def points(cls, c: Tensor, directions: Directions, arithmetic: Arithmetic) -> Affine:
        """Numbers that are exactly so."""
        c = c.detach().double()
        return cls(c, c.new_zeros(len(c), 0, *c.shape[1:]), torch.zeros_like(c), directions, arithmetic)

    @classmethod
    def boxes(cls, c: Tensor, radii: Tensor, directions: Directions, arithmetic: Arithmetic) -> Affine:
        """(N,D) boxes, with a direction for each of the D entries."""
        return replace(cls.points(c, directions, arithmetic), e=radii.detach().double()).spread()

    def radius(self) -> Tensor:
        """How far an entry is from its centre, at most."""
        return upper(self.G.abs().sum(1) + self.e)

    def magnitude(self) -> Tensor:
        """How large an entry is, at most."""
        return upper(self.c.abs() + self.radius())

    def spread(self) -> Affine:
        """The same sets, each entry's e a direction of its own; for (N,D)."""
        own = self.directions.take(self.c.shape[-1])
        G = _wide(self.G, own.stop)
        if G is self.G:
            G = G.clone()
        G[:, own] = torch.diag_embed(self.e)
        return replace(self, G=G, e=torch.zeros_like(self.e))

    def exactly(self) -> Affine:
        """The same sets, from now on without the rounding of the model's arithmetic."""
        return replace(self, arithmetic=EXACT)

    def rounded(self, by: Tensor, arithmetic: Arithmetic) -> Affine:
        """Once more within `by`; from now on in this arithmetic."""
        return replace(self, e=upper(self.e + by, self.magnitude()), arithmetic=arithmetic)

    def map_axes(self, change) -> Affine:
        """`change` acts on the axes after N alone; it is called with one axis more for G."""
        return replace(self, c=change(self.c), G=change(self.G), e=change(self.e))

    def heads(self, count: int) -> Affine:
        """(N,D) to (N,H,d)"""
        return self.map_axes(lambda x: x.unflatten(-1, (count, -1)))

    def merged(self) -> Affine:
        """(N,H,d) to (N,D)"""
        return self.map_axes(lambda x: x.flatten(-2))

    def entries(self, part: slice) -> Affine:
        return self.map_axes(lambda x: x[..., part])

    def expand(self, count: int) -> Affine:
        """One set (N = 1) as `count` equal ones."""
        return self.map_axes(lambda x: x.expand(count, *x.shape[1:]))

    # Each operation below is sound for the exact function of every computed argument, and adds its own rounding.

    def linear(self, W: Tensor, b: Tensor | None = None) -> Affine:
        """W x + b for W (M,D)."""
        size = self.magnitude() @ W.abs().T
        c = self.c @ W.T
        if b is not None:
            size, c = size + b.abs(), c + b
        e = self.e @ W.abs().T + gamma(W.shape[1] + 2, self.arithmetic.u) * size
        return replace(self, c=c, G=self.G @ W.T, e=upper(e, size))

    def __add__(self, other: Affine) -> Affine:
        return self._sum(other, 1)

    def __sub__(self, other: Affine) -> Affine:
        return self._sum(other, -1)

    def _sum(self, other: Affine, sign: int) -> Affine:
        size = self.magnitude() + other.magnitude()
        K = max(self.G.shape[1], other.G.shape[1])
        G = _wide(self.G, K) + sign * _wide(other.G, K)
        e = self.e + other.e + gamma(2, self.arithmetic.u) * size
        return replace(self, c=self.c + sign * other.c, G=G, e=upper(e, size))

    def __mul__(self, other: Affine) -> Affine:
        """Entry by entry; an axis of one entry meets all of the other's."""
        a, b = self, other
        size = a.magnitude() * b.magnitude()
        K = max(a.G.shape[1], b.G.shape[1])
        G = a.c[:, None] * _wide(b.G, K) + b.c[:, None] * _wide(a.G, K)
        e = a.radius() * b.radius() + a.c.abs() * b.e + b.c.abs() * a.e + gamma(4, a.arithmetic.u) * size
        return replace(a, c=a.c * b.c, G=G, e=upper(e, size))

    def total(self) -> Affine:
        """The sum over the last axis, which stays with one entry."""
        size = self.magnitude().sum(-1, keepdim=True)
        e = self.e.sum(-1, keepdim=True) + gamma(self.c.shape[-1] + 1, self.arithmetic.u) * size
        return replace(self, c=self.c.sum(-1, keepdim=True), G=self.G.sum(-1, keepdim=True), e=upper(e, size))

    def scaled(self, by: Tensor | float) -> Affine:
        """Times constants, entry by entry; a number may be rounded to the arithmetic first."""
        by = torch.as_tensor(by, dtype=torch.float64)
        size = self.magnitude() * by.abs()
        e = self.e * by.abs() + gamma(3, self.arithmetic.u) * size
        return replace(self, c=self.c * by, G=self.G * by, e=upper(e, size))

    def shifted(self, by: Tensor | float) -> Affine:
        """Plus constants."""
        by = torch.as_tensor(by, dtype=torch.float64)
        size = self.magnitude() + by.abs()
        e = self.e + gamma(2, self.arithmetic.u) * size
        return replace(self, c=self.c + by, e=upper(e, size))

    def smooth(self, name: str) -> Affine:
        """tanh, sigmoid, silu or gelu."""
        f, r = SMOOTH[name], self.radius()
        value, slope = f.value(self.c), f.slope(self.c)
        least = (self.c.abs() - r).clamp(min=0) * (1 - 2.0**-40)
        curve = f.curve(self.c, r, least) * (1 + 2.0**-38) + 2.0**-44
        bend = 0.5 * curve * r * r + slope.abs() * self.e + 2.0**-44 * r
        size = self.magnitude()
        most = torch.minimum(value.abs() + slope.abs() * r + bend, f.largest(size)) * (1 + 2.0**-40)
        e = bend + (self.arithmetic.u + 4 * OWN) * f.ulps(size, most)
        return replace(self, c=value, G=slope[:, None] * self.G, e=upper(e, size))

    def relu(self) -> Affine:
        """Between 0 and t x where the sign is open, for the t that makes the gap least."""
        r = self.radius()
        low, high = self.c - r, self.c + r
        low, high = low - 2 * OWN * low.abs(), high + 2 * OWN * high.abs()
        t = torch.where(low >= 0, 1.0, torch.where(high <= 0, 0.0, high / (high - low).clamp(min=2.0**-200)))
        t = t.clamp(0, 1)
        gap = torch.maximum(-t * low, (1 - t) * high).clamp(min=0)
        gap = torch.where((low >= 0) | (high <= 0), torch.zeros_like(gap), gap) * (1 + 2.0**-40)
        size = self.magnitude()
        e = t * self.e + gap / 2 + 16 * OWN * size
        return replace(self, c=t * self.c + gap / 2, G=t[:, None] * self.G, e=upper(e, size))

    def inverse_root(self) -> Affine:
        """1 / √x of x > 0; infinite where that is not certain."""
        r = self.radius()
        low = (self.c - r) * (1 - 2.0**-40)
        good = low > 2.0**-60
        low, c = torch.where(good, low, 1.0), torch.where(good, self.c, 1.0)
        value = c**-0.5
        slope = -0.5 * value**3
        most = low**-0.5
        e = 0.375 * most**5 * r * r + slope.abs() * (self.e + 2.0**-44 * r)
        e = e + (2 * ROOT_ULPS * self.arithmetic.u + 64 * OWN) * most
        e = torch.where(good, e, torch.inf)
        return replace(self, c=value, G=slope[:, None] * self.G, e=upper(e, self.magnitude()))

    def norm(self, weight: Tensor, bias: Tensor | None, eps: float, centred: bool) -> Affine:
        """Layer norm, or without `centred` RMS norm, over (N,D).

            y = g (x - μ) / √(mean (x - μ)² + eps) + b

        Mean and variance may be computed in any way, that of mean(x²) - μ² included, and y as x s - μ s.
        """
        u, D, own = self.arithmetic.u, self.c.shape[-1], self.arithmetic
        size = self.magnitude()
        mean, square = size.mean(-1, keepdim=True), (size * size).mean(-1, keepdim=True)
        x = self.exactly()
        middle = x - x.total().scaled(1 / D) if centred else x
        variance = (middle * middle).total().scaled(1 / D).shifted(eps)
        variance = variance.rounded(4 * gamma(D + 4, u) * (square + eps), own)
        scale = variance.inverse_root().exactly()
        off = gamma(D + 2, u) * mean + gamma(8, u) * (size + mean)
        y = middle * scale
        y = y.rounded(upper(scale.magnitude() * off), own).scaled(weight)
        return y if bias is None else y.shifted(bias)


def _wide(G: Tensor, K: int) -> Tensor:
    """With K directions."""
    return G if G.shape[1] == K else torch.cat([G, G.new_zeros(len(G), K - G.shape[1], *G.shape[2:])], 1)


def attend(q: Affine, k: list[Affine], v: list[Affine], r: Tensor, scale: float) -> Affine:
    """(N,H,d) queries over C taps, the own one first: Σ_j softmax_j(scale q·k_j + r_j) v_j, for r (H,C).

    Written by differences to the own tap, z_j = scale q·(k_j - k_0) + r_j - r_0, as Σ_j w_j(z) (v_j - v_0) + v_0. All
    other ways to compute it are covered: the roundings are bounded by the terms of q·k_j and of q·k_0, each by itself,
    those of the weights by their ulps, and of the sum by twice all |v_j|. Equal taps may be joined as one.
    """
    own, u, d, C = q.arithmetic, q.arithmetic.u, q.c.shape[-1], len(k)
    if C == 1:
        return v[0]
    exact = q.exactly()
    sizes = [(q.magnitude() * each.magnitude()).sum(-1) * scale for each in k]  # (N,H)
    spread_r = r.abs().max(1).values
    zs = []
    for j in range(1, C):
        z = (exact * (k[j].exactly() - k[0].exactly())).total().scaled(scale).shifted((r[:, j] - r[:, 0])[:, None])
        by = gamma(d + C + 32, u) * (sizes[0] + sizes[j] + r[:, 0].abs() + r[:, j].abs() + 1 + spread_r)
        zs.append(z.rounded(by[..., None], EXACT))
    w = _weights(zs, u)
    y = v[0].exactly()
    for j in range(1, C):
        y = y + w[j - 1] * (v[j].exactly() - v[0].exactly())
    total = torch.stack([each.magnitude() for each in v]).sum(0)
    return y.rounded(2 * gamma(C + 6, u) * total, own)


def _weights(zs: list[Affine], u: float) -> list[Affine]:
    """softmax of (0, z_1, …): the weights of the z. With h the way from the centre and D the largest |h_a - h_b|,

        |d²w_j| = w_j |(h_j - mean_w h)² - var_w h| <= w_j max((1 - w_j)², min_a (1 - w_a)) D²

    where on the way w_j, and 1 - w_j, grow by no more than exp(D).
    """
    C = len(zs) + 1
    centres = torch.cat([torch.zeros_like(zs[0].c), *(z.c for z in zs)], -1)  # (N,H,C)
    w = F.softmax(centres, -1)
    rest = torch.stack([torch.cat([w[..., :j], w[..., j + 1 :]], -1).sum(-1) for j in range(C)], -1)
    radii = torch.cat([z.radius() for z in zs], -1)
    D = radii.max(-1, keepdim=True).values if C == 2 else radii.topk(2, -1).values.sum(-1, keepdim=True)
    D = D * (1 + 2.0**-40)
    grown = torch.exp(D.clamp(max=60)) * (1 + 2.0**-40)
    most, most_rest = (w * grown).clamp(max=1), (rest * grown).clamp(max=1)
    curve = most * torch.maximum(most_rest**2, most_rest.min(-1, keepdim=True).values) * D * D
    K = max(z.G.shape[1] for z in zs)
    found = []
    for j in range(1, C):
        here = slice(j, j + 1)
        G = zs[0].G.new_zeros(len(w), K, *w.shape[1:-1], 1)
        e = 0.5 * curve[..., here] + ((4 * ULPS + C + 12) * u + 2.0**-44) * most[..., here]
        for a, z in enumerate(zs, 1):
            slope = w[..., here] * ((rest[..., here] if a == j else 0.0) - (0.0 if a == j else w[..., a : a + 1]))
            G = G + slope[:, None] * _wide(z.G, K)
            e = e + slope.abs() * (z.e + 2.0**-44 * z.radius())
        found.append(Affine(w[..., here], G, upper(e), zs[0].directions, EXACT))
    return found
