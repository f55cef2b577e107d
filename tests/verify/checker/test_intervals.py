"""Every operation on intervals holds what it is of its points, sampled and in exact arithmetic."""

from __future__ import annotations

import math
import warnings
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from lengthwise.verify.checker.intervals import Interval
from lengthwise.verify.checker.points import Point, PointOperations, enclosed
from lengthwise.verify.checker.rounding import ARITHMETICS

POINTS = 100_000
TWO = {"+": np.add, "-": np.subtract, "*": np.multiply}
ONE = {
    "square": np.square,
    "relu": lambda x: np.maximum(x, 0),
    "exp": np.exp,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
ONE_ABOVE_ZERO = {"sqrt": np.sqrt, "reciprocal": lambda x: 1 / x}


def intervals(seed, shape, least=None):
    """Narrow ones and wide ones, around 0 and far from it, with a point in each."""
    g = np.random.default_rng(seed)
    centre = g.normal(size=shape) * 10.0 ** g.integers(-3, 2, shape)
    radius = np.abs(g.normal(size=shape)) * 10.0 ** g.integers(-9, 2, shape) * (g.random(shape) < 0.9)
    x = Interval(centre - radius, centre + radius)
    if least is not None:
        x = Interval(np.abs(x.lo) + least, np.abs(x.lo) + least + 2 * radius)
    return x, x.lo + (x.hi - x.lo) * g.random(shape)


def holds(x, points, digits=1e-15):
    """The points are computed in float64 themselves."""
    off = digits * (1 + np.abs(points))
    assert ((x.lo <= points + off) & (points - off <= x.hi)).all()


@pytest.mark.parametrize("name", TWO)
def test_of_two(name):
    (x, a), (y, b) = intervals(0, POINTS), intervals(1, POINTS)
    holds({"+": x + y, "-": x - y, "*": x * y}[name], TWO[name](a, b))


@pytest.mark.parametrize("name", [*ONE, *ONE_ABOVE_ZERO])
def test_of_one(name):
    x, a = intervals(2, POINTS, 1e-6 if name in ONE_ABOVE_ZERO else None)
    with np.errstate(over="ignore"):
        points = (ONE | ONE_ABOVE_ZERO)[name](a)
    kept = np.isfinite(points)
    holds(getattr(x, name)()[kept], points[kept])


def test_of_many():
    (x, a), (_, W), (_, c) = intervals(3, (POINTS // 50, 50)), intervals(4, (7, 50)), intervals(5, 7)
    holds(x.sum(1), a.sum(1), 1e-12)
    holds(x.mean(1), a.mean(1), 1e-12)
    holds(x.affine(W, c), a @ W.T + c, 1e-10)


def fractions(x):
    return [Fraction(v) for v in np.asarray(x).ravel().tolist()]


def test_agrees_with_exact_arithmetic():
    """Of intervals without width, so that only the rounding is left: the exact result is inside, and little else."""
    g = np.random.default_rng(6)
    a, b = g.normal(size=(2, 300)) * 10.0 ** g.integers(-8, 8, (2, 300))
    x, y = Interval.of(a), Interval.of(b)
    A, B = fractions(a), fractions(b)
    cases = [
        (x + y, [p + q for p, q in zip(A, B, strict=True)]),
        (x - y, [p - q for p, q in zip(A, B, strict=True)]),
        (x * y, [p * q for p, q in zip(A, B, strict=True)]),
        (x.square(), [p * p for p in A]),
        (Interval.of(np.abs(a)).reciprocal(), [1 / abs(p) for p in A]),
        (x.sum(0).reshape(1), [sum(A)]),
        (x.mean(0).reshape(1), [sum(A) / 300]),
    ]
    W, c = g.normal(size=(5, 300)), g.normal(size=5)
    rows = [sum(w * p for w, p in zip(fractions(row), A, strict=True)) for row in W]
    cases.append((x.affine(W, c), [row + Fraction(d) for row, d in zip(rows, c.tolist(), strict=True)]))
    for found, exact in cases:
        for low, high, value in zip(found.lo.ravel().tolist(), found.hi.ravel().tolist(), exact, strict=True):
            assert Fraction(low) <= value <= Fraction(high)
        size = np.abs(found.mid).max() + (np.abs(W) @ np.abs(a)).max() * (len(exact) == 5)
        assert ((found.hi - found.lo) <= 1e-12 * (size + np.abs(a).sum())).all()


def exact_exp(x):
    return Decimal(x).exp()


def exact_erf(x):
    """2/√π Σ (-1)^k x^(2k+1) / (k! (2k+1))"""
    total = term = Decimal(x)
    square = Decimal(x) ** 2
    for k in range(1, 400):
        term = -term * square / k
        total += term / (2 * k + 1)
    return 2 * total / PI.sqrt()


PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211707")


def test_elementary_functions_agree_with_many_digits():
    g = np.random.default_rng(7)
    points = [*(g.normal(size=60) * 3).tolist(), 0.0, 1e-8, -1e-8, 5.5, -5.5, -0.75, -math.sqrt(2), math.sqrt(2)]
    with localcontext() as context:
        context.prec = 80
        for p in points:
            x, e = Interval.of(np.array([p])), Decimal(p)
            tanh = 1 - 2 / (exact_exp(2 * e) + 1)
            phi = (1 + exact_erf(e / Decimal(2).sqrt())) / 2
            exact = {
                "exp": exact_exp(e),
                "tanh": tanh,
                "sigmoid": 1 / (1 + exact_exp(-e)),
                "gelu": e * phi,
            }
            for name, value in exact.items():
                at = PointOperations(ARITHMETICS["float64"]).gelu(Point.at(np.array([[p]])))
                found = enclosed(at)[0] if name == "gelu" else getattr(x, name)()
                assert Decimal(float(found.lo[0])) <= value <= Decimal(float(found.hi[0])), (name, p)
                assert found.hi[0] - found.lo[0] < 1e-13 * (1 + abs(float(value))), name


def test_what_is_no_number_is_inside_nothing():
    nan = Interval(np.array([np.nan]), np.array([np.nan]))
    everything = Interval(np.array([-np.inf]), np.array([np.inf]))
    assert not nan.inside(everything).any()
    assert not (nan + Interval.of(1.0)).inside(everything).any()


def test_where_nothing_is_known_there_is_no_middle_and_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        middle = Interval(np.array([-np.inf, 1.0]), np.array([np.inf, 2.0])).mid
    assert np.isnan(middle[0])
    assert middle[1] == 1.5
