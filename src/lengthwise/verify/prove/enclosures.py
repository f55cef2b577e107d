"""What a computed number may differ by from the exact one: the roundings, and every assumption about them.

A sum of n products, computed in any order with or without fused multiply-adds, differs from the exact one by at most

    γ_n Σ|a_i b_i|,    γ_n = n u / (1 - n u)

u being 2^-24 in float32 and 2^-53 in float64 (Higham, Accuracy and Stability, chapter 3). An elementary function
differs by a number of ulps that no standard says: `ULPS` is assumed of exp, tanh, erf and the sigmoid, `ROOT_ULPS` of
square roots, their reciprocals and divisions. A product of float32 matrices by TF32 or bf16 is not covered.

The bounds are themselves computed in float64. So a bound is made from the magnitudes of what is added up, once with the
u of the model and once with that of float64, and then widened by `WIDER`, more than any sum of 2^13 terms can round.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

ULPS = 32
"""Assumed of exp, tanh, erf and the sigmoid: torch's vectorised exp on a CPU allows 20."""
ROOT_ULPS = 4
"""Assumed of square roots, their reciprocals and divisions."""
WIDER = 1 + 2.0**-38
TERMS = 2**13
"""A sum has at most so many terms."""
LEAST = 2.0**-100
"""Added to every bound: more than what numbers too small for float32 can lose in a sum."""
LARGEST = 2.0**100
"""What is larger may overflow, and has no enclosure."""
OWN = 2.0**-53


class Arithmetic(NamedTuple):
    """In which numbers the model is evaluated."""

    name: str
    u: float
    """Half the distance from 1 to the next number."""


FLOAT32 = Arithmetic("float32", 2.0**-24)
FLOAT64 = Arithmetic("float64", OWN)
EXACT = Arithmetic("exact", 0.0)
"""Real numbers: for tests, and for formulas whose rounding is added as a whole."""
ARITHMETICS = {each.name: each for each in (FLOAT32, FLOAT64)}


def gamma(n: int, u: float) -> float:
    """γ_n, and that of the prover's own float64 beside it, which computes the bound."""
    return n * u / (1 - n * u) + 2 * n * OWN / (1 - n * OWN)


def upper(bound: Tensor, size: Tensor | None = None) -> Tensor:
    """A bound computed in float64, rounded up; infinite where `size`, what it is a bound for, may overflow."""
    bound = bound * WIDER + LEAST
    bound = torch.nan_to_num(bound, nan=math.inf, posinf=math.inf)
    return bound if size is None else bound.masked_fill(~(size < LARGEST), math.inf)


class Smooth(NamedTuple):
    """A smooth function with what an enclosure asks of it, all as functions of tensors."""

    value: Any
    slope: Any
    curve: Any
    """The largest |f''| on [lo, hi]: curve(centre, radius, least |x|)."""
    ulps: Any
    """How far a computed value may be off, in units of u: ulps(largest |x|, largest |f(x)|)."""
    largest: Any
    """A bound of |f| by |x|: largest(largest |x|)."""


def _sech2(x: Tensor) -> Tensor:
    """1 - tanh² of x >= 0, with few digits lost however near to 0 it is."""
    small = torch.exp(-2 * x)
    return 4 * small / (1 + small) ** 2


def _phi(x: Tensor) -> Tensor:
    return torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _gelu_curve(c: Tensor, r: Tensor, least: Tensor) -> Tensor:
    """f'' = φ(x)(2 - x²), |f''| <= 0.798, |f'''| = φ(x)|x³ - 4x| <= 0.8."""
    return torch.minimum((_phi(c) * (2 - c * c)).abs() + 0.8 * r, torch.full_like(c, 0.798))


def _tanh_curve(c: Tensor, r: Tensor, least: Tensor) -> Tensor:
    """f'' = -2 t (1 - t²), |f''| <= 0.77 and <= 2 sech²(least |x|), |f'''| <= 2."""
    local = 2 * torch.tanh(c).abs() * _sech2(c.abs()) + 2 * r
    return torch.minimum(torch.minimum(local, 2 * _sech2(least)), torch.full_like(c, 0.77))


def _sigmoid_curve(c: Tensor, r: Tensor, least: Tensor) -> Tensor:
    """f(x) = (1 + tanh(x/2)) / 2, so f'' = tanh''(x/2) / 8."""
    return _tanh_curve(c / 2, r / 2, least / 2) / 8


def _silu_slope(x: Tensor) -> Tensor:
    s = torch.sigmoid(x)
    return s * (1 + x * (1 - s))


def _silu_curve(c: Tensor, r: Tensor, least: Tensor) -> Tensor:
    """f'' = σ'(2 + x (1 - 2σ)), |f''| <= 1/2, |f'''| <= 3 max|σ''| + max|x σ'''| <= 0.5."""
    s = torch.sigmoid(c)
    return torch.minimum((s * (1 - s) * (2 + c * (1 - 2 * s))).abs() + 0.5 * r, torch.full_like(c, 0.5))


def _gelu_slope(x: Tensor) -> Tensor:
    return (1 + torch.erf(x / math.sqrt(2))) / 2 + x * _phi(x)


def _own_ulps(x: Tensor, y: Tensor) -> Tensor:
    return 2 * ULPS * y


SMOOTH = {
    "tanh": Smooth(torch.tanh, lambda x: _sech2(x.abs()), _tanh_curve, _own_ulps, lambda x: x.clamp(max=1)),
    "sigmoid": Smooth(torch.sigmoid, lambda x: _sech2(x.abs() / 2) / 4, _sigmoid_curve, _own_ulps, torch.ones_like),
    # x σ(x), and x/2 (1 + erf(x/√2)), whose erf has an error of its own ulps and of its argument's rounding.
    "silu": Smooth(F.silu, _silu_slope, _silu_curve, lambda x, y: (2 * ULPS + 12) * x, lambda x: x),
    "gelu": Smooth(F.gelu, _gelu_slope, _gelu_curve, lambda x, y: (ULPS + 8) * x, lambda x: x),
}
