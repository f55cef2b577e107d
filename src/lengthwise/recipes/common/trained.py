"""Trained models tested once more, with strings or at lengths that their runs did not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import device as torch_device
from torch import nn

from ... import tasks
from ...evaluate import score_strings
from ...lab import Run, load_model
from ...lab.statistics import wilson


def loaded(runs: Iterable[Run], device: str) -> list[nn.Module]:
    """The trained models of these runs, there."""
    return [load_model(run).to(device) for run in runs]


class LengthScore(NamedTuple):
    """How one model's seeds did at one length."""

    length: int
    strings: int
    """Of each seed."""
    right: tuple[float, ...]
    """By seed."""
    overflowed: int = 0
    """Strings of any seed whose logits are not finite: they count as wrong."""

    @classmethod
    def of(cls, models: Sequence[nn.Module], task: tasks.Task, length: int, strings: int, device: str) -> LengthScore:
        tested = [
            score_strings(model, task, (length,), strings, seed=0, device=torch_device(device)) for model in models
        ]
        right = tuple(scores.correct[str(length)] for scores in tested)
        return cls(length, strings, right, sum(sum(scores.overflowed.values()) for scores in tested))

    @property
    def mean(self) -> float:
        return sum(self.right) / (self.strings * len(self.right))

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's, of the strings of all seeds together."""
        return wilson(sum(self.right), self.strings * len(self.right))


def to_json(scores: Mapping[int, LengthScore]) -> dict[str, Any]:
    """A string that overflows counts as wrong, and is counted by itself too."""
    return {
        str(n): {
            "mean": score.mean,
            "right": list(score.right),
            "strings": score.strings,
            "interval": score.interval,
            "overflowed": score.overflowed,
        }
        for n, score in scores.items()
    }
