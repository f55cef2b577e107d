"""What the vector of a token holds in the Transformer of bi_nfa_weights.py, and how far rounding carries it.

Every layer leaves bits, or counts of at most n, and the constant K. RMSNorm divides by the root of their mean square;
its weight is that of K alone. So all are multiplied by one λ of the token, with

    |λ - 1| <= ρ = X / (2 K²) + (D/2 + 8) u        X the most that the other squares add up to

and the entries that a layer leaves are off by what λ and fresh rounding did in two layers: `bounds`.

Shapes: D width, k parts, n_i states of part i, n the largest of all of these but D.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import Error
from .rounding import FP32

PAIRS = 16
"""So many of RoPE's pairs, the fastest, tell distances apart: at widths to 4,000, all up to 131,072."""
LEAST_GAP = 0.5
"""By how much their cosines must add up to less than `PAIRS` at every wrong distance."""


class Regions(NamedTuple):
    """The entries of a token's vector, by what they hold."""

    one: int
    begins: int
    separator: int
    inner: list[Tensor]
    """For each part (n_i, n_i)."""
    outer: Tensor
    """(k, k)"""
    older: Tensor
    places: list[Tensor]
    """For each prime one entry for every remainder."""
    width: int
    constant: float = math.nan
    """K, the value of the entry `one`."""

    @classmethod
    def of(cls, parts: Sequence[int], longest: int) -> Regions:
        """For parts of so many states."""
        k, squares = len(parts), [n**2 for n in parts]
        primes = first_primes(longest)
        sizes = [3, *squares, k**2, max(sum(squares), k**2), *primes]
        _, *regions = torch.arange(sum(sizes)).split(sizes)
        inner = [region.view(n, n) for region, n in zip(regions[:k], parts, strict=True)]
        outer, older, *places = regions[k:]
        # RoPE's pairs need room too: those that tell distances, one for each remainder and one for the start token.
        width = max(sum(sizes) + sum(sizes) % 2, 2 * (PAIRS + sum(primes) + 1))
        return cls(0, 1, 2, inner, outer.view(k, k), older, places, width)

    def with_constant(self) -> Regions:
        """With the least power of 2 by which rounding is harmless in fp32."""
        for exponent in range(2, 30):
            at = self._replace(constant=2.0**exponent)
            if bounds(at).harmless:
                return at
        raise Error(
            f"bipe: rounding is not proven harmless in fp32 at width {self.width:,}, which {len(self.outer)} parts of "
            f"up to {max(map(len, self.inner))} states take. Use a smaller machine."
        )


def bipe_width(parts: Sequence[int], *, longest: int) -> int:
    """Returns how wide `theory.bipe` is for a Bi-NFA with parts of so many states.

    >>> bipe_width([8] * 8, longest=64), bipe_width([64], longest=64)
    (1108, 8214)
    """
    return Regions.of(parts, longest).width


def first_primes(count: int) -> list[int]:
    """The first primes whose product is at least `count`: the remainders by them tell so many places apart.

    >>> first_primes(30), first_primes(31)
    ([2, 3, 5], [2, 3, 5, 7])
    """
    primes = [2]
    while math.prod(primes) < count:
        primes.append(next(p for p in range(primes[-1] + 1, 2 * primes[-1]) if all(p % q for q in primes)))
    return primes


class VectorBounds(NamedTuple):
    """Bounds of how far rounding carries what a layer leaves, at every layer and every length."""

    factor: float
    """ρ: how far λ is from 1."""
    bit: float
    """How far an entry that should be 0 or 1 is off."""
    product: float
    """How far a sum of products is off before it is cut."""
    answer: float
    """How far the sum of the states that may have been reached is off."""
    logit: float
    """How far the number that β multiplies is off."""

    @property
    def harmless(self) -> bool:
        """With room to spare: counts are cut 1/4 from what they should be, answers at 1/2."""
        return self.product <= 1 / 8 and self.answer <= 1 / 4 and self.logit <= 1 / 4


def bounds(at: Regions, u: float = FP32) -> VectorBounds:
    """How far everything is off. What a layer takes away it takes λ times, so of an entry x at most ρ |x| remains.

    Copies: the right logit is ahead of all others by β/2 but for β (2ρ + 64u) S, S the largest number that β
    multiplies. That is at most β/4, so what is copied is one token, and the rest has weights below exp(-128).
    Counts: let bits be off by at most E. The two bits of a product are off by E and E + 2ρ, and a sum of n
    products, with what remains of the old bit, by n (2E + 3ρ) + ρ and fresh rounding.
    Cuts: both sides of a cut are flat to 1/4. So the new bit is 0 or λ, and with what remains of a count of up to
    n it is off by ρ (n + 2) and fresh rounding. E is not in it: what holds once holds at every depth.
    Answers: a sum over all states is compared with 1/2.
    """
    sizes = [len(region) for region in at.inner]
    n = max(len(at.outer), *sizes)
    X = (n + 1) ** 2 * (sum(m**2 for m in sizes) + at.outer.numel()) + 2 * len(at.older) + len(at.places) + 2
    rho = X / (2 * at.constant**2) + (at.width / 2 + 8) * u
    fresh = 2 * (n + 9) * (n + 1) * u
    bit = rho * (n + 2) + fresh
    return VectorBounds(
        factor=rho,
        bit=bit,
        product=n * (2 * bit + 3 * rho) + rho + fresh,
        answer=sum(sizes) * (2 * bit + 4 * rho + fresh),
        logit=(PAIRS / LEAST_GAP + len(at.places)) * (2 * rho + 64 * u),
    )
