"""Biases by distance n = t - s: what stands farther away counts for less.

    alibi:         -m_h n,                    m_h = 2^(-8 h / H), h = 1 … H, not trained
    hard-alibi:    0 for n < h, else -inf,    h = 1 … masked heads; 0 for the other heads
    t5:            b_h[bucket(n)]             one bucket a distance at first, then ever wider ones
    kerple-log:    -p_h ln(1 + a_h n)
    kerple-power:  -a_h n^p_h

Softmax ignores what is the same for all keys, so ALiBi is also + m_h s on the key alone, which needs no T×S matrix.

Shapes: B batch, S keys, H heads.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor, nn

from ..errors import Error
from ..options import above, at_least
from .absolute import INEXACT
from .base import Places, Position
from .score import DistanceBias, KeyBias, Score


def alibi_slopes(heads: int) -> list[float]:
    """One for every head: a geometric row, and where H is no power of two, every other one of the next finer row.

    >>> alibi_slopes(4)
    [0.25, 0.0625, 0.015625, 0.00390625]
    >>> [round(m, 4) for m in alibi_slopes(3)]
    [0.0625, 0.0039, 0.25]
    """
    whole = 2 ** math.floor(math.log2(heads))
    row = [2 ** (-8 * (h + 1) / whole) for h in range(whole)]
    finer = [2 ** (-4 * (h + 1) / whole) for h in range(0, 2 * whole, 2)]
    return row + finer[: heads - whole]


class Alibi(Position):
    at_attention = takes_fractions = True

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        steepness: Annotated[
            float, above(0), "What all slopes are multiplied by; BiPE takes 96 for its segments."
        ] = 1.0,
    ):
        super().__init__()
        self.slopes = [steepness * m for m in alibi_slopes(heads)]

    def score(self, q: Tensor, queries: Places, keys: Places) -> Score:
        ids, last = keys["token"], queries["token"][:, -1:]
        # Counted from the last query and in fp64: m s has too few digits left in fp32 for a large s.
        slopes = torch.tensor(self.slopes, dtype=INEXACT.get(ids.device.type, torch.float64), device=ids.device)
        return Score(bias=KeyBias(slopes[:, None] * (ids - last)[:, None]))


class HardAlibi(Position):
    """Heads that read the last token, the last two, …, and heads without positions (Jelassi et al. 2024)."""

    at_attention = True
    HIDDEN = -1e9
    """In the place of -inf, that no row of padding is without any number."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        masked: Annotated[
            int | None, at_least(0), "How many heads read the last tokens alone; None: half of them."
        ] = None,
    ):
        super().__init__()
        self.heads, self.masked = heads, heads // 2 if masked is None else masked
        if self.masked > heads:
            raise Error(f"hard-alibi: masked must be at most the {heads} heads, got {masked}.")

    def score(self, q: Tensor, queries: Places, keys: Places) -> Score:
        h, n = torch.arange(self.heads, device=q.device)[:, None], torch.arange(self.masked + 1, device=q.device)
        values = torch.zeros(self.heads, len(n), dtype=q.dtype, device=q.device)
        hidden = values.masked_fill((h < self.masked) & (n > h), self.HIDDEN)
        return Score(bias=DistanceBias(hidden, queries["token"], keys["token"]))


class T5(Position):
    """One table for all layers, as in T5, but the logits are divided by sqrt(d) as with every encoding here."""

    at_attention = True

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        buckets: Annotated[
            int, at_least(2), "How many different biases a head has; half of them for single distances."
        ] = 32,
        furthest: Annotated[int, at_least(2), "The distance from which on all share the last bucket."] = 128,
    ):
        super().__init__()
        self.table = nn.Parameter(torch.randn(buckets, heads) * width**-0.5)
        self.buckets, self.furthest = buckets, furthest

    def score(self, q: Tensor, queries: Places, keys: Places) -> Score:
        n = torch.arange(self.furthest + 1, device=q.device)
        return Score(bias=DistanceBias(self.table[self.bucket(n)].T, queries["token"], keys["token"]))

    def bucket(self, n: Tensor) -> Tensor:
        single = self.buckets // 2
        wider = (n.clamp(min=1) / single).log() / math.log(self.furthest / single) * (self.buckets - single)
        return torch.where(n < single, n, (single + wider.long()).clamp(max=self.buckets - 1))


class Kerple(Position):
    """What both forms share: two positive numbers for each head, in every layer, which training moves."""

    at_attention = True
    in_each_layer = True
    LEAST = 1e-2

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.p, self.a = nn.Parameter(2 * torch.rand(heads)), nn.Parameter(torch.rand(heads))

    def score(self, q: Tensor, queries: Places, keys: Places) -> Score:
        # Inside one sequence of at most S tokens no distance reaches S; across sequences the logit is masked anyway.
        n = torch.arange(keys["token"].shape[1], device=q.device, dtype=self.a.dtype)
        return Score(bias=DistanceBias(self.by_distance(n), queries["token"], keys["token"]))

    def by_distance(self, n: Tensor) -> Tensor:
        """(H,S) the bias at distances n."""
        raise NotImplementedError


class KerpleLog(Kerple):
    def by_distance(self, n: Tensor) -> Tensor:
        p, a = self.p[:, None].clamp(min=self.LEAST), self.a[:, None].clamp(min=self.LEAST)
        return -p * (1 + a * n).log()


class KerplePower(Kerple):
    def by_distance(self, n: Tensor) -> Tensor:
        p, a = self.p[:, None].clamp(self.LEAST, 2), self.a[:, None].clamp(min=self.LEAST)
        # The power's own slope is infinite at 0, where the bias is 0 whatever p is.
        return -a * torch.where(n > 0, n.clamp(min=1) ** p, 0)
