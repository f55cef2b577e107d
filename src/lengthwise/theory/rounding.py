"""How far rounding can carry a built RegularGPT from its exact 0s and 1s: a bound for one group, and so for all.

Every entry of the state should be 0 or 1. Let `state` bound the error of the entries that leave a group, and `read`
that of the entries its feed-forward part reads. The units there tell a + b = 2 from a + b <= 1 as long as

    read <= 1/8 - 2u        (u the unit roundoff: 2^-24 in fp32)

and what they then give is off by fresh rounding only, whatever came in. So `state` does not know the group it belongs
to, `read` follows from it, and what holds once holds at every depth. The head adds up to n entries and needs
n (state + 4u) < 1/2. In fp32 both hold up to `MOST_STATES` states.

The steps. Let all entries of the states that enter a group be within E of their exact 0 or 1.

1. Attention. Values are copies, older - own rounds once, adding the residual once more (own cancels, being the same
   number twice). So the entries after it are within e = 2E + 4u.
2. A norm undone. Let D inputs be exact bits, a share m of them 1, but for errors up to e; v = m - m², s² = v +
   10⁻⁵. In exact arithmetic the variance moves by 2 cov + var(errors), at most 4ev + e². A computed mean is off by
   at most μ = γ(m + e) and a computed variance by 4γ(m + e)(1 + e), γ = (D + 4)u / (1 - (D + 4)u), in whichever
   order they are summed, in one pass or two. So the computed s² is off by a share t = (4ev + e² + 4γ(m + e)(1 + e))
   / s² at most, and the output by
       N(e) = (max(m, 1 - m) + 2e + μ) (1/√(1 - t) - 1) + 2e + μ + 32u
   where 32u pays for the operations on each entry and for the weight and bias as rounded (for t <= 1/2, e <= 1/8).
3. Feed-forward. Let its input be within R = N(2E + 4u), by the norm with 2n ones. If R <= 1/8 - 2u, then 2(a + b) -
   5/2 is at most 0 where ab = 0 and at least 1 where ab = 1, rounding included. So a product is 0 exactly, or 1 but
   for the rounding of the units' sums. In a row of a transition matrix one entry is 1, so at most one of the n
   products of a sum is not 0. With the old content taken away, what remains is off by less than 32u: neither E nor
   R is in it.
4. Second norm. The states that leave the group are within E* = N(32u), by the norm with n ones.

Embeddings and the pad vector are exact: E = 0 at first. By 4 every later group has E <= E*, so 3 needs to hold for
E* alone.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

FP32 = 2.0**-24
EPS = 1e-5
"""What torch's layer norm adds to the variance."""
MARGIN = 1 / 8
MOST_STATES = 127
"""The most states for which rounding is harmless in fp32; so it is for all below."""


class RoundingBounds(NamedTuple):
    state: float
    """On the entries of a group's output."""
    read: float
    """On the entries that its feed-forward part reads."""


def norm_bound(e: float, ones: int, D: int, u: float = FP32) -> float:
    """Bounds how far the output of an undone layer norm is off, its D inputs being `ones` 1s, else 0s, off by up to e.

    No order of summation is assumed, nor whether the variance takes one pass or two.
    """
    if (D + 4) * u > 1 / 4:
        return inf
    m = ones / D
    v = m - m**2
    spread = max(m, 1 - m) if v else 0
    gamma = (D + 4) * u / (1 - (D + 4) * u)
    mean = gamma * (m + e)
    t = (4 * e * v + e**2 + 4 * gamma * (m + e) * (1 + e)) / (v + EPS)
    if e > 1 / 8 or t > 1 / 2:
        return inf
    return (spread + 2 * e + mean) * (1 / sqrt(1 - t) - 1) + 2 * e + mean + 32 * u


def rounding_bounds(n: int, u: float = FP32) -> RoundingBounds:
    """The bounds for a machine of n states, at every group and every length."""
    D = 2 * n**2
    state = norm_bound(32 * u, n, D, u)
    return RoundingBounds(state, norm_bound(2 * state + 4 * u, 2 * n, D, u))


def rounding_is_harmless(n: int, u: float = FP32) -> bool:
    """Returns whether these bounds prove the construction for n states right at every length."""
    state, read = rounding_bounds(n, u)
    return read <= MARGIN - 2 * u and n * (state + 4 * u) < 1 / 2
