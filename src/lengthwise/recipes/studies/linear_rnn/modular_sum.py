"""Sum(5), learned by the default model with one part changed: what the ablation and the study of stability train.

A model that both ask for is trained once: a run is found by what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .... import tasks
from ....lab import Experiment, Run, plan
from ....lab.statistics import accuracy, overflowed
from ....report.formatting import percent
from ...base import Scale
from ...common.rules import settings_of
from ...common.trained import LengthScore, loaded, task_of
from ...papers.lrnn.scales import RULES
from ...papers.lrnn.table_2 import TASKS

TASK = "modular-sum"
TRAINED = TASKS[TASK].trained
BASE: dict[str, Any] = {"model.variant": "lengthwise", "model.normalisation": "paper"}
"""All that is changed is changed in this: the default model, which has the bound of eq. 6."""
SETTINGS: dict[Scale, dict[str, Any]] = {
    "smoke": {"seeds": 1},
    "laptop": {"seeds": 2, "training.steps": 600},
    "paper": {"seeds": 3},
}
"""What differs from Table 2."""
STRINGS: dict[Scale, int] = {"smoke": 4, "laptop": 64, "paper": 512}
"""At each length beyond training."""


def plan_changed(scale: Scale, change: Mapping[str, Any]) -> list[Experiment]:
    """The seeds of the default model with this change, in settings as `bench --set` takes them and `seeds`."""
    settings = {**settings_of(RULES[scale], TASK, "block-lrnn"), **BASE, **SETTINGS[scale], **change}
    seeds, supervision = settings.pop("seeds"), settings.pop("supervision")
    made = tasks.get(TASK, **TASKS[TASK].params, supervision=supervision)
    planned = plan(made, ["block-lrnn"], seeds=seeds, test_lengths=[TRAINED], settings=settings)
    return [replace(e, tests=replace(e.tests, lengths=(TRAINED,))) for e in planned]


def scores_by_length(runs: Sequence[Run], lengths: Sequence[int], strings: int, device: str) -> dict[int, LengthScore]:
    """Every seed at every length, beginning with the training length.

    They are tested here and not in the runs, so that the lengths can be changed and the runs are found all the same.
    """
    samples = runs[0].result["samples"]
    inside = tuple(accuracy(run, TRAINED) * samples for run in runs)
    task, models = task_of(runs[0]), loaded(runs, device)
    scores = {TRAINED: LengthScore(TRAINED, samples, inside, overflowed(runs, [TRAINED]))}
    return scores | {n: LengthScore.of(models, task, n, strings, device) for n in lengths}


def written(score: LengthScore) -> str:
    return "overflows" if score.overflowed else percent(score.mean)
