"""What a recipe is: the experiments behind one table or figure, at a scale this machine can take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..lab import Experiment

Scale = Literal["smoke", "laptop", "paper"]
"""smoke: seconds, in the tests; laptop: minutes to an hour on two cores; paper: the published setting."""


@dataclass(frozen=True)
class Recipe:
    title: str
    description: str
    """What is asked and how to read the answer, in a few sentences."""
    experiments: list[Experiment]


Table = Callable[[Scale], Recipe]
