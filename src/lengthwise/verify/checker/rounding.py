"""What a model's own arithmetic may add to the exact result, and everything that is assumed of it.

A sum of n products, taken in any order, in parts, and with or without fused multiply-adds, differs from the exact one
by at most

    γ_n Σ|a_i b_i|,    γ_n = n u / (1 - n u),    u = 2^-24 in float32, 2^-53 in float64

(Higham, Accuracy and Stability of Numerical Algorithms, chapter 3). No standard says how far an elementary function may
be off. Assumed is:

    exp                          32 ulps of its value
    tanh, erf and the sigmoid    32 u, of values up to 1
    square roots and divisions   4 ulps, and so their quotients
    numbers too small            what is lost where a result is subnormal, or set to 0 in its place, is below `LEAST`

Nothing else is, but that products are of the model's own numbers: TF32 and bf16 are not covered.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .intervals import Array

EXP = 64
"""In units of u: an ulp is up to 2u of a number."""
BOUNDED = 32
QUOTIENT = 8
LEAST = 2.0**-100
LARGEST = 2.0**100
"""What may be larger is refused: it could overflow."""
WIDER = 1 + 2.0**-20
"""Bounds are computed in float64 without a look at their own last digits, and made wider by this."""


@dataclass(frozen=True)
class Arithmetic:
    name: str
    u: float

    def gamma(self, n: int) -> float:
        return n * self.u / (1 - n * self.u) if n * self.u < 0.5 else float("inf")

    def up(self, bound: Array) -> Array:
        """A bound that is sure to be one."""
        bound = bound * WIDER + LEAST
        return np.where(bound < LARGEST, bound, np.inf)  # where it is no number, too


ARITHMETICS = {"float32": Arithmetic("float32", 2.0**-24), "float64": Arithmetic("float64", 2.0**-53)}
