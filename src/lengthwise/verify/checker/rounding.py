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

    # What each operation is off by at most; `size`, `terms`, … are what the absolute values are at most.

    def linear(self, terms: Array, W: Array) -> Array:
        """W x + b, with terms = |W| |x| + |b|."""
        n = W.shape[1]
        return self.up(self.gamma(n + 3) * terms + n * LEAST * (1 + np.abs(W).max(initial=0)))

    def add(self, size: Array) -> Array:
        return self.up(self.u * size)

    def gelu(self, size: Array) -> Array:
        """x/2 (1 + erf(x / √2)): what erf is off by, and its argument, whose slope is at most 1."""
        return self.up(size * (BOUNDED / 2 + 4) * self.u + 2 * self.u * size)

    def norm(self, size: Array, centred: Array, rho: Array, w: Array, b: Array) -> Array:
        """(x - μ) ρ w + b for |x| <= size, |x - μ| <= centred.

        Covered: the variance in two passes, by E[x²] - μ², and by Welford's updates (each within 4 γ_{n+8} E[x²]);
        (x - μ) ρ, and x ρ - μ ρ.
        """
        n, u, gamma = size.shape[-1], self.u, self.gamma
        mean, squares = size.mean(-1)[..., None], (size**2).mean(-1)[..., None]
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            t = 4 * gamma(n + 8) * squares * rho**2 + 4 * u
            off_rho = np.where(t <= 0.5, (1 / np.sqrt(1 - np.minimum(t, 0.5)) - 1) * (1 + 32 * u) + 32 * u, np.inf)
            # What is too small for x - μ is multiplied by ρ w, and what is for that times ρ, by w.
            lost = (1 + rho) * LEAST
            inner = rho * ((1 + off_rho) * (gamma(n + 4) * mean + gamma(8) * (size + mean)) + off_rho * centred) + lost
            noise = np.abs(w) * inner * (1 + 8 * u) + gamma(4) * (np.abs(w) * centred * rho + np.abs(b))
            return self.up(np.where(squares < LARGEST, noise, np.inf))

    def scores(self, terms: Array, d: int) -> Array:
        """q · k_j / sqrt(d) + r_j for all taps j on axis 1, as the softmax sees them."""
        most = terms.max(1, keepdims=True)
        return self.up(self.gamma(d + 16) * most + (terms.shape[1] + EXP) * self.u + np.zeros(terms.shape))

    def softmax(self, w: Array, rest: Array) -> Array:
        """Weights of at most w, and 1 - w of at most rest, on axis 1."""
        return self.up(w * rest * 2.1 * EXP * self.u + w * (w.shape[1] + QUOTIENT + 8) * self.u)

    def mix(self, size: Array) -> Array:
        """Σ_j w_j v_j of weights of sum 1, |v_j| <= size on axis 1.

        Where it is v_0 + w (v_1 - v_0), what the sigmoid w is off by is v_0's as well: `BOUNDED` u of each.
        """
        return self.up(self.gamma(2 * size.shape[1] + 8 + BOUNDED) * size.sum(1))


ARITHMETICS = {"float32": Arithmetic("float32", 2.0**-24), "float64": Arithmetic("float64", 2.0**-53)}
