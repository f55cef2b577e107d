"""The attention of bi_nfa_weights.py: one head that copies the matrices of one earlier token, and finds it with RoPE.

Its logits are β times a number of which the right token has 1 more than all others and the start token 1/2 less, so
that the start token is read where there is no right one.

    fast pairs    Σ_c a cos((n - m - o) w_c), which has its one maximum where segment m stands o before segment n
    remainders    in how many of them the places p - o and p' agree: all, if p' stands o before p
    slowest pair  stands still, and says at every distance that a key is the start token's

Shapes: D width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..errors import Error
from .bi_nfa_vector import LEAST_GAP, PAIRS, Regions

SHARPNESS = 512.0
"""β: after rounding the right logit is ahead by at least a quarter of it, and exp(-128) is 0 in fp32."""
BASE = 1e8
"""Of RoPE: its slowest pair turns by less than 1e-4 in 1,000 segments."""


def offset_weight(width: int, segments: int) -> float:
    """What each of the fast pairs counts, so that the right distance is ahead of all others by 1."""
    distances = torch.arange(1, segments + 1, dtype=torch.float64)
    similar = sum((distances * w).cos() for w in _angles(width))
    gap = PAIRS - float(torch.as_tensor(similar).max())
    if gap < LEAST_GAP:
        raise Error(
            f"bipe: at width {width:,} RoPE does not tell {segments:,} segments apart well enough. Build it for fewer."
        )
    return 1 / gap


def _angles(width: int) -> list[float]:
    """By which the fast pairs turn from one segment to the next."""
    return [BASE ** (-2 * c / width) for c in range(PAIRS)]


class CopyMaps:
    """The maps of one head: logits of queries and keys, and what it copies into `older`."""

    def __init__(self, at: Regions, offset_weight: float):
        self.at, self.offset_weight, self.half = at, offset_weight, at.width // 2
        self.angles = _angles(at.width)

    def copy_inside(self, steps: int) -> dict[str, Tensor]:
        """The inner matrices of the token so many places before, of the same segment."""
        at = self.at
        q, k = self._find(distance=0, agreements=len(at.places))
        for pair in range(PAIRS):
            k[pair, at.one], k[pair, at.begins] = 1 / at.constant, -1
        first = PAIRS
        for region in at.places:
            p = len(region)
            remainder = torch.arange(p)
            q[first + (remainder - steps) % p, region] = 1
            k[first + remainder, region] = 1
            k[first, at.begins] = -1  # the start token has a place too, which is not to agree
            first += p
        return self._maps(q, k, torch.cat([region.flatten() for region in at.inner]))

    def copy_between(self, steps: int) -> dict[str, Tensor]:
        """The outer matrices of the separator so many segments before."""
        q, k = self._find(distance=steps, agreements=0)
        k[:PAIRS, self.at.separator] = 1
        return self._maps(q, k, self.at.outer.flatten())

    def nothing(self) -> dict[str, Tensor]:
        D = self.at.width
        return {"mixer.qkv.weight": torch.zeros(3 * D, D), "mixer.out.weight": torch.zeros(D, D)}

    def _find(self, distance: int, agreements: int) -> tuple[Tensor, Tensor]:
        """Queries turned back by this distance, and the start token 1/2 below the right token's score."""
        D, K, a = self.at.width, self.at.constant, self.offset_weight
        q, k = torch.zeros(D, D), torch.zeros(D, D)
        for pair, w in enumerate(self.angles):
            q[pair, self.at.one] = a * math.cos(distance * w) / K
            q[self.half + pair, self.at.one] = -a * math.sin(distance * w) / K
        q[self.half - 1, self.at.one] = (PAIRS * a + agreements - 1 / 2) / K
        k[self.half - 1, self.at.begins] = 1
        return q, k

    def _maps(self, q: Tensor, k: Tensor, source: Tensor) -> dict[str, Tensor]:
        D = self.at.width
        v, out = torch.zeros(D, D), torch.zeros(D, D)
        channel = torch.arange(len(source))
        v[channel, source] = 1
        out[self.at.older[channel], channel] = 1
        # Attention divides its logits by sqrt(D).
        return {"mixer.qkv.weight": torch.cat([SHARPNESS * math.sqrt(D) * q, k, v]), "mixer.out.weight": out}
