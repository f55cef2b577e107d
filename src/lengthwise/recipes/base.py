"""What a recipe is: the experiments behind one table or figure, at a scale this machine can take, and what is made of
them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

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


Table = Callable[[Scale], Recipe]
