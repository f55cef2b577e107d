"""Which length a training step has.

`uniform`: a possible length of the range, drawn by the step alone, so that all seeds of an experiment see the same
lengths in the same order (and can be trained together, stacked).
`log-uniform`: the same with P(n) proportional to 1/n, so that every doubling of the length is about as frequent.
`growing`: half the steps have the longest length so far, the others one up to it; the longest grows by one possible
length when the last `WINDOW` batches at it are right in `grow_at` of their strings, and falls by one when they are in
less than `shrink_at`. With `grow_late` half the lengths are all there are until this share of the steps is over, and
those beyond come one by one over the rest. So a rule is learned on short strings, which cost less and where one wrong
step spoils less, and by the time of long ones the learning rate has fallen.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from math import ceil
from typing import Any

from ..errors import LengthError
from ..seeds import derive
from .settings import Curriculum

WINDOW = 8
DRAWS = 1 << 53
"""How finely log-uniform draws: as many steps as a float has between a half and 1."""


class Uniform:
    remembers: tuple[str, ...] = ()
    """What it has learned, by attribute."""

    def __init__(self, lengths: list[int]):
        self.lengths = lengths

    def length(self, step: int) -> int:
        return self.lengths[derive("length", self.lengths, step) % len(self.lengths)]

    def learn(self, length: int, accuracy: float, step: int) -> None:
        """Nothing to learn: the draw depends on the step alone."""

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.remembers}

    def restore(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class LogUniform(Uniform):
    def __init__(self, lengths: list[int]):
        super().__init__(lengths)
        self.shares = list(accumulate(1 / n for n in lengths))

    def length(self, step: int) -> int:
        draw = derive("log-uniform", self.lengths, step) % DRAWS / DRAWS * self.shares[-1]
        return self.lengths[min(bisect_right(self.shares, draw), len(self.lengths) - 1)]


class GrowingLengths(Uniform):
    remembers = ("longest", "recent")

    def __init__(self, lengths: list[int], settings: Curriculum, steps: int):
        super().__init__(lengths)
        allowed = [i for i, n in enumerate(lengths) if n <= settings.grow_from]
        if not allowed:
            got = f"training.grow_from is {settings.grow_from}"
            raise LengthError(f"{got}, below the shortest possible length. Use {lengths[0]} or more.")
        self.longest = self.shortest = allowed[-1]
        self.settings, self.steps = settings, steps
        self.recent: list[float] = []

    def length(self, step: int) -> int:
        draw = derive("growing", self.lengths, step)
        return self.lengths[self.longest if draw % 2 else (draw >> 1) % (self.longest + 1)]

    def learn(self, length: int, accuracy: float, step: int) -> None:
        if length != self.lengths[self.longest]:
            return
        self.recent = [*self.recent, accuracy][-WINDOW:]
        if len(self.recent) < WINDOW:
            return
        share = sum(self.recent) / WINDOW
        by = (share >= self.settings.grow_at) - (share < self.settings.shrink_at)
        late = self.settings.grow_late
        rest = max(0.0, (step / self.steps - late) / (1 - late)) if late else 1.0
        there = ceil(len(self.lengths) * (1 + rest) / 2)
        to = max(min(self.longest + by, there - 1), self.shortest)
        if to != self.longest:
            self.longest, self.recent = to, []


def make_curriculum(settings: Curriculum, lengths: list[int], steps: int) -> Uniform:
    """The curriculum over `lengths`, the possible ones of its range, in a training of so many steps."""
    if settings.kind == "growing":
        return GrowingLengths(lengths, settings, steps)
    return {"uniform": Uniform, "log-uniform": LogUniform}[settings.kind](lengths)
