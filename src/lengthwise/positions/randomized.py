"""Randomized positions: places are drawn from more than a text has, so that no number is new in longer ones.

    r_0 < r_1 < … < r_(T-1),  T different numbers of 0 … longest - 1, drawn anew for every batch
    an encoding that places by number stands at r_t instead of t
    a bias by distance n takes the bias of r_n instead, and that of 0 for n = 0

With `continuous` the r are any numbers in [0, longest) (random float sampling, Shimizu et al. 2026). There are enough
for a text of any length, whose tokens then stand closer together.

In training the draw is torch's, in evaluation it is always the same: the T smallest of one fixed order, sorted. The
numbers depend on how many tokens a batch has, so nothing can be kept for the next token.

Shapes: B batch, T tokens, H heads.
"""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor

from ..errors import Error, LengthError
from ..options import at_least
from .absolute import INEXACT
from .base import Places, Position
from .layout import Layout
from .score import Bias, DistanceBias, Score

SEED = 0
"""Of the order from which evaluation draws."""


class Randomized(Position):
    uncached = (
        "randomized positions depend on how long the whole text is, so nothing can be kept for the next token. Use "
        "use_cache=False, which reads the whole text again for every token."
    )

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        of: Annotated[dict, "The encoding whose places are drawn, with its name and settings."],
        longest: Annotated[int, at_least(1), "How many places there are to draw from; no text may have more tokens."],
        continuous: Annotated[
            bool, "Whether places are drawn between whole numbers too, of which there are enough for any text."
        ] = False,
    ):
        super().__init__()
        from . import numbered  # the registry holds this class too

        self.of = numbered(of, "Randomized positions: of", width=width, heads=heads)
        self.at_input, self.at_attention = self.of.at_input, self.of.at_attention
        self.at_pairs = self.of.at_pairs
        if not (self.at_input or self.at_attention):
            raise Error(f"Randomized positions: of is {of['name']!r}, which has no places that could be drawn.")
        if continuous and not self.of.takes_fractions:
            raise Error(f"Randomized positions: {of['name']!r} takes whole places alone. Leave out continuous.")
        self.at_most, self.longest_place = None if continuous else longest, longest
        self.scores = type(self.of).score is not Position.score
        self.order = torch.randperm(longest, generator=torch.Generator().manual_seed(SEED), device="cpu")

    def place(self, tokens: Tensor | None, layout: Layout, state: Any = None) -> tuple[Places, None]:
        """Drawn on the CPU, so that a seed means the same on every device."""
        T, count = layout.positions.shape[1], self.longest_place
        if state is not None:
            raise Error(self.uncached)
        if self.at_most is None:
            draw = None if self.training else torch.Generator().manual_seed(SEED)
            r = count * torch.rand(T, generator=draw, dtype=torch.float64, device="cpu").sort().values
            return self._at(layout, r.to(layout.positions.device, INEXACT.get(layout.positions.device.type)))
        if count < T:
            raise LengthError(
                f"Randomized positions: a text has {T:,} tokens, and longest is {count:,} places to draw from. "
                "Train with a longest of at least the longest text, or ask for shorter ones."
            )
        order = torch.randperm(count, device="cpu") if self.training else self.order
        return self._at(layout, order[:T].sort().values.to(layout.positions.device))

    def _at(self, layout: Layout, r: Tensor) -> tuple[Places, None]:
        # Left padding keeps its negative numbers.
        drawn = torch.where(layout.positions < 0, layout.positions, r[layout.positions.clamp(min=0)])
        return Places(layout.positions, drawn=drawn, by_distance=r.expand_as(layout.positions)), None

    def _drawn(self, places: Places) -> Places:
        return places.once(self, lambda: Places(places["drawn"]))

    def pairs(self, q: Tensor, k: Tensor, queries: Places, keys: Places) -> Bias | None:
        return self.of.pairs(q, k, self._drawn(queries), self._drawn(keys))

    def embed(self, places: Places) -> Tensor | None:
        return self.of.embed(self._drawn(places))

    def rotate(self, x: Tensor, places: Places) -> Tensor:
        return self.of.rotate(x, self._drawn(places))

    def rotate_queries(self, q: Tensor, places: Places) -> Tensor:
        return self.of.rotate_queries(q, self._drawn(places))

    def score(self, q: Tensor, queries: Places, keys: Places) -> Score:
        if not self.scores:
            return super().score(q, queries, keys)
        # A query at 0 and keys that stand r_n before it give the bias of every distance n.
        r = keys["by_distance"][:1]
        before = torch.where(torch.arange(r.shape[1], device=r.device) == 0, 0, -r)
        bias = self.of.score(q[:1, :, :1], Places(torch.zeros_like(r[:, :1])), Places(before)).bias
        assert bias is not None
        return Score(bias=DistanceBias(bias.dense().flatten(0, -2), queries["token"], keys["token"]))
