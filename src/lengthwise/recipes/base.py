"""What a recipe is: the experiments behind one table or figure, at a scale this machine can take, and what is made of
them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..errors import Error, UnknownName
from ..lab import Experiment, Run
from ..report.panel import Panel

Scale = Literal["smoke", "laptop", "paper"]
"""smoke: seconds, in the tests; laptop: minutes to an hour on two cores; paper: the published setting."""


@dataclass(frozen=True)
class Recipe:
    title: str
    description: str
    """What is asked and how to read the answer, in a few sentences."""
    experiments: list[Experiment]
    """May be empty: a recipe can be a measurement alone."""
    panels: Callable[[list[Run]], list[Panel]] | None = None
    """What is drawn, measured or compared beside the runs, once those of `experiments` are finished."""

    def only(self, tasks: Sequence[str]) -> Recipe:
        """The part of the table that is about these tasks."""
        known = {e.task.name for e in self.experiments}
        if len(known) < 2:
            raise Error(f"{self.title}: there are no rows to choose from. Leave --only out.")
        for name in tasks:
            if name not in known:
                raise UnknownName("row", name, known)
        return replace(self, experiments=[e for e in self.experiments if e.task.name in tasks])


Table = Callable[[Scale], Recipe]
