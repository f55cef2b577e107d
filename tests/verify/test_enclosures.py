"""Enclosures hold every number that float32 or exact arithmetic gives, in whatever order it adds."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
import torch.nn.functional as F

from lengthwise.verify.prove.affine import Affine, Directions, attend
from lengthwise.verify.prove.enclosures import EXACT, FLOAT32, FLOAT64, SMOOTH

SAMPLES = 100_000


def form(shape, arithmetic, seed, radius=0.05, directions=None, centre=1.0):
    """A random form, its e above 0."""
    draw = torch.Generator().manual_seed(seed)
    directions = directions or Directions()
    kept = directions.take(5)
    c = centre * torch.randn(*shape, generator=draw, dtype=torch.float64)
    G = torch.zeros(shape[0], kept.stop, *shape[1:], dtype=torch.float64)
    G[:, kept] = radius * torch.randn(shape[0], 5, *shape[1:], generator=draw, dtype=torch.float64)
    e = 0.1 * radius * torch.rand(*shape, generator=draw, dtype=torch.float64)
    return Affine(c, G, e, directions, arithmetic)


def members(forms, count, seed):
    """For each form `count` members with the same ε for all: (N,count,*), a third of them at corners; and ε."""
    draw = torch.Generator().manual_seed(seed)
    K = forms[0].directions.count
    N = len(forms[0].c)
    eps = torch.rand(N, count, K, generator=draw, dtype=torch.float64) * 2 - 1
    eps[:, : count // 3] = eps[:, : count // 3].sign()
    found = []
    for each in forms:
        delta = torch.rand(N, count, *each.c.shape[1:], generator=draw, dtype=torch.float64) * 2 - 1
        delta[:, : count // 2] = delta[:, : count // 2].sign()
        found.append(linear_part(each, eps) + delta * each.e[:, None])
    return found, eps


def linear_part(form, eps):
    K = form.G.shape[1]
    return form.c[:, None] + torch.einsum("nsk,nk...->ns...", eps[..., :K], form.G)


def inside(form, eps, values):
    """Directions that the operation added, beyond those of ε, are free, so their part counts as e."""
    known = eps.shape[-1]
    e = form.e + form.G[:, known:].abs().sum(1)
    off = (values.double() - linear_part(Affine(form.c, form.G[:, :known], e, form.directions, EXACT), eps)).abs()
    own = 2.0**-50 * (values.double().abs() + 1)  # of the test's own sums
    assert (off <= e[:, None] + own).all(), float((off - e[:, None]).max())


W = torch.randn(7, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64).float().double()
B = torch.randn(7, generator=torch.Generator().manual_seed(1), dtype=torch.float64).float().double()
g6, b6 = W[0].clone(), W[1].clone()

ONE = {
    "linear": (lambda x: x.linear(W, B), lambda x: F.linear(x, W.to(x), B.to(x))),
    "linear reversed": (lambda x: x.linear(W, B), lambda x: F.linear(x.flip(-1), W.flip(-1).to(x)) + B.to(x)),
    "total": (lambda x: x.total(), lambda x: x.sum(-1, keepdim=True)),
    "scaled": (lambda x: x.scaled(0.3), lambda x: x * 0.3),
    "shifted": (lambda x: x.shifted(0.3), lambda x: x + 0.3),
    "relu": (lambda x: x.relu(), F.relu),
    "spread": (lambda x: x.spread(), lambda x: x),
    "layer norm": (lambda x: x.norm(g6, b6, 1e-5, True), lambda x: F.layer_norm(x, (6,), g6.to(x), b6.to(x))),
    "rms norm": (lambda x: x.norm(g6, None, 1e-5, False), lambda x: F.rms_norm(x, (6,), g6.to(x), 1e-5)),
    "inverse root": (lambda x: (x * x).shifted(0.1).inverse_root(), lambda x: (x * x + 0.1).rsqrt()),
    **{name: (lambda x, n=name: x.smooth(n), f.value) for name, f in SMOOTH.items()},
}
TWO = {
    "sum": (lambda x, y: x + y, lambda x, y: x + y),
    "difference": (lambda x, y: x - y, lambda x, y: x - y),
    "product": (lambda x, y: x * y, lambda x, y: x * y),
    "square": (lambda x, y: x * x, lambda x, y: x * x),
}


@pytest.mark.parametrize("centre", [0.1, 1.0, 6.0])
@pytest.mark.parametrize("radius", [1e-6, 0.02, 1.0])
@pytest.mark.parametrize("name", ONE)
def test_one_argument(name, radius, centre):
    ours, torchs = ONE[name]
    for arithmetic, dtype in ((FLOAT32, torch.float32), (FLOAT64, torch.float64)):
        x = form((10, 6), arithmetic, 2, radius, centre=centre)
        if arithmetic is FLOAT32:  # what is rounded to float32 must itself lie inside
            x = Affine(x.c, x.G, x.e + 1e-6 * x.magnitude(), x.directions, arithmetic)
            [points], eps = members([Affine(x.c, x.G, 0.5 * x.e, x.directions, arithmetic)], SAMPLES // 600, 3)
        else:
            [points], eps = members([x], SAMPLES // 600, 3)
        inside(ours(x), eps, torchs(points.to(dtype)))


@pytest.mark.parametrize("radius", [1e-6, 0.02, 1.0])
@pytest.mark.parametrize("name", TWO)
def test_two_arguments(name, radius):
    ours, torchs = TWO[name]
    directions = Directions()
    x, y = (form((10, 6), FLOAT64, s, radius, directions) for s in (4, 5))
    [a, b], eps = members([x, y], SAMPLES // 60, 6)
    inside(ours(x, y), eps, torchs(a, b))


@pytest.mark.parametrize("C", [1, 2, 3, 5])
@pytest.mark.parametrize("radius", [1e-6, 0.02, 0.5])
def test_attention(C, radius):
    """As the ops compute it: by sigmoid and interpolation for two taps, else by softmax."""
    directions, H, d = Directions(), 2, 3
    q, *kv = (form((10, H * d), FLOAT64, s, radius, directions).heads(H) for s in range(1 + 2 * C))
    r = torch.randn(H, C, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    found = attend(q, kv[:C], kv[C:], r, d**-0.5)
    [qs, *kvs], eps = members([q, *kv], SAMPLES // 60, 7)
    k, v = torch.stack(kvs[:C]), torch.stack(kvs[C:])
    logits = (qs * k).sum(-1) * d**-0.5 + r.T[:, None, None]
    y = (logits.softmax(0)[..., None] * v).sum(0)
    inside(found, eps, y)
    if C == 2:
        q32, k32, v32 = qs.float(), k.float(), v.float()
        w = ((q32 * (k32[1] - k32[0])).sum(-1) * d**-0.5 + (r[:, 1] - r[:, 0]).float()).sigmoid()
        wide = [Affine(x.c, x.G, x.e + 1e-6 * x.magnitude(), directions, FLOAT32) for x in (q, *kv)]
        inside(attend(wide[0], wide[1:3], wide[3:], r, d**-0.5), eps, torch.lerp(v32[0], v32[1], w[..., None]))


def test_the_curves_bound_the_second_derivatives():
    """On intervals of all widths and places, sampled densely; and the slopes are the derivatives."""
    for name, f in SMOOTH.items():
        c = torch.linspace(-9, 9, 721, dtype=torch.float64)[:, None]
        for r in (0.0, 1e-3, 0.1, 1.0, 5.0):
            x = (c + r * torch.linspace(-1, 1, 41, dtype=torch.float64)).requires_grad_()
            slope = torch.autograd.grad(f.value(x).sum(), x, create_graph=True)[0]
            assert torch.allclose(slope, f.slope(x), atol=1e-13)
            curve = torch.autograd.grad(slope.sum(), x)[0].abs().amax(1, keepdim=True)
            width = torch.full_like(c, r)
            assert (f.curve(c, width, (c.abs() - r).clamp(min=0)) >= curve - 1e-13).all(), (name, r)


def test_against_rational_arithmetic():
    """A linear map, a product and a sum of boxes: every exact vertex lies within the bounds."""
    x = form((3, 4), EXACT, 11, 0.3)
    V = torch.randn(2, 4, generator=torch.Generator().manual_seed(12), dtype=torch.float64)
    y = x.linear(V)
    z = y * y
    for corner in range(2**5):
        signs = [1 if corner >> k & 1 else -1 for k in range(5)]
        for n in range(3):
            at = [
                Fraction(float(x.c[n, i])) + sum(s * Fraction(float(x.G[n, k, i])) for k, s in enumerate(signs))
                for i in range(4)
            ]
            for m in range(2):
                for side in (-1, 1):
                    v = [Fraction(float(w)) for w in V[m]]
                    exact = sum(
                        w * (a + side * Fraction(float(x.e[n, i]))) for i, (w, a) in enumerate(zip(v, at, strict=True))
                    )
                    for found, true in ((y, exact), (z, exact * exact)):
                        middle = Fraction(float(found.c[n, m])) + sum(
                            s * Fraction(float(found.G[n, k, m])) for k, s in enumerate(signs)
                        )
                        assert abs(true - middle) <= Fraction(float(found.e[n, m]))


def test_any_order_of_summation_is_covered():
    """1,000 orders of a sum of 200 products in float32, and one that cancels badly."""
    draw = torch.Generator().manual_seed(13)
    a = torch.randn(1, 200, generator=draw).double()
    V = torch.randn(1, 200, generator=draw).double()
    bound = Affine.points(a, Directions(), FLOAT32).linear(V)
    for _ in range(1000):
        order = torch.randperm(200, generator=draw)
        one_by_one = torch.cumsum((a[0, order].float() * V[0, order].float()), 0)[-1]
        assert abs(float(one_by_one) - float(bound.c[0, 0])) <= float(bound.e[0, 0])


def test_what_may_overflow_has_no_bound():
    x = Affine.points(torch.full((1, 2), 1e25), Directions(), FLOAT32)
    assert math.isinf(float((x * x).e[0, 0]))
