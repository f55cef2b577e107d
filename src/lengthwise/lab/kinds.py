"""What the kind of an experiment's data decides: strings of a task, text, or answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from ..files import Tensors
from ..train import Data, Directory, Objective, Progress, TrainState
from .experiment import AnswersSpec, Experiment, TaskSpec, TextSpec
from .on_answers import OnAnswers
from .on_strings import OnStrings
from .on_text import OnText


class Kind(Protocol):
    """What the kind of an experiment's data decides."""

    @property
    def data(self) -> Data: ...

    @property
    def objective(self) -> Objective: ...

    def state(self, experiment: Experiment, directory: Directory | None = None) -> TrainState: ...

    def test_before(self, experiment: Experiment, state: TrainState, check: Callable[[], None]) -> None: ...

    def test_after(
        self,
        experiment: Experiment,
        state: TrainState,
        hear: Callable[[Progress], None],
        keep: Callable[[Tensors], None],
        check: Callable[[], None],
    ) -> tuple[dict[str, Tensors], dict[str, Any]]: ...


KINDS: dict[type, Callable[[Experiment, torch.device, int], Kind]] = {
    TaskSpec: OnStrings,
    TextSpec: OnText,
    AnswersSpec: OnAnswers,
}


def kind_of(experiment: Experiment, device: torch.device, share: int = 1) -> Kind:
    """What is read and built for this experiment and those that differ from it in seed and rate alone."""
    return KINDS[type(experiment.data)](experiment, device, share)
