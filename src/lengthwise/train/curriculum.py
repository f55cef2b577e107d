"""Which length a training step has.

`uniform`: a possible length of the range, drawn by the step alone, so that all seeds of an experiment see the same
lengths in the same order (and can be trained together, stacked).
`log-uniform`: the same with P(n) proportional to 1/n, so that every doubling of the length is about as frequent.
`growing`: half the steps have the longest length so far, the others one up to it; the longest grows by one possible
length when the last `WINDOW` batches at it are right in `grow_at` of their strings, and falls by one when they are in
less than `shrink_at`.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any

from ..errors import LengthError
from ..seeds import derive
from .settings import Curriculum

WINDOW = 8
DRAWS = 1 << 53
"""How finely log-uniform draws: as many steps as a float has between a half and 1."""


class Uniform:
    def __init__(self, lengths: list[int]):
        self.lengths = lengths

    def length(self, step: int) -> int:
        return self.lengths[derive("length", self.lengths, step) % len(self.lengths)]

    def learn(self, length: int, accuracy: float) -> None:
        """Nothing to learn: the draw depends on the step alone."""

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


class LogUniform(Uniform):
    def __init__(self, lengths: list[int]):
        super().__init__(lengths)
        self.shares = list(accumulate(1 / n for n in lengths))

    def length(self, step: int) -> int:
        draw = derive("log-uniform", self.lengths, step) % DRAWS / DRAWS * self.shares[-1]
        return self.lengths[min(bisect_right(self.shares, draw), len(self.lengths) - 1)]


class GrowingLengths(Uniform):
    def __init__(self, lengths: list[int], grow_from: int, grow_at: float, shrink_at: float = 0.0):
        super().__init__(lengths)
        allowed = [i for i, n in enumerate(lengths) if n <= grow_from]
        if not allowed:
            raise LengthError(
                f"training.grow_from is {grow_from}, below the shortest possible length. Use {lengths[0]} or more."
            )
        self.longest = allowed[-1]
        self.shortest, self.grow_at, self.shrink_at = self.longest, grow_at, shrink_at
        self.recent: list[float] = []

    def length(self, step: int) -> int:
        draw = derive("growing", self.lengths, step)
        return self.lengths[self.longest if draw % 2 else (draw >> 1) % (self.longest + 1)]

    def learn(self, length: int, accuracy: float) -> None:
        if length != self.lengths[self.longest]:
            return
        self.recent = [*self.recent, accuracy][-WINDOW:]
        if len(self.recent) < WINDOW:
            return
        share = sum(self.recent) / WINDOW
        by = (share >= self.grow_at) - (share < self.shrink_at)
        to = min(max(self.longest + by, self.shortest), len(self.lengths) - 1)
        if to != self.longest:
            self.longest, self.recent = to, []

    def state(self) -> dict[str, Any]:
        return {"longest": self.longest, "recent": self.recent}

    def restore(self, state: dict[str, Any]) -> None:
        self.longest, self.recent = state["longest"], state["recent"]


def make_curriculum(settings: Curriculum, lengths: list[int]) -> Uniform:
    """The curriculum over `lengths`, the possible ones of its range."""
    if settings.kind == "growing":
        return GrowingLengths(lengths, settings.grow_from, settings.grow_at, settings.shrink_at)
    return {"uniform": Uniform, "log-uniform": LogUniform}[settings.kind](lengths)
