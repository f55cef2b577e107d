"""Sum(5), learned by the default model with one part changed: what the ablation and the study of stability train.

What the two have in common is trained once: a run is found by what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from ... import tasks
from ...lab import Experiment, Run, load_model, plan
from ...lab.statistics import accuracy, overflowed
from ..base import Scale
from ..regulargpt.far import Point
from ..regulargpt.scales import settings
from .scales import RULES
from .table_2 import TASKS

TASK = "modular-sum"
TRAINED = TASKS[TASK].trained
BASE: dict[str, Any] = {"model.variant": "lengthwise", "model.normalisation": "paper"}
"""All that is changed is changed in this: the default model, which has the bound of eq. 6."""
SETTINGS: dict[Scale, dict[str, Any]] = {
    "smoke": {"seeds": 1},
    "laptop": {"seeds": 2, "training.steps": 600},
    "paper": {"seeds": 3},
}
"""What is otherwise than in Table 2."""
STRINGS: dict[Scale, int] = {"smoke": 4, "laptop": 64, "paper": 512}
"""At each length beyond training."""


def changed(scale: Scale, change: Mapping[str, Any]) -> list[Experiment]:
    """The seeds of the default model with this change, in settings as `bench --set` takes them and `seeds`."""
    given = {**settings(RULES[scale], TASK, "block-lrnn"), **BASE, **SETTINGS[scale], **change}
    seeds, supervision = given.pop("seeds"), given.pop("task.supervision")
    made = tasks.get(TASK, **TASKS[TASK].params, supervision=supervision)
    planned = plan(made, ["block-lrnn"], seeds=seeds, test_lengths=[TRAINED], settings=given)
    return [replace(e, evaluation=replace(e.evaluation, lengths=(TRAINED,))) for e in planned]


def asked_on(runs: Sequence[Run], lengths: Sequence[int], strings: int) -> dict[int, Point]:
    """Every seed at every length, beginning with the training length.

    It is asked here and not in the runs, so that the lengths can be changed and the runs are found all the same.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    spec, samples = runs[0].experiment.task, runs[0].result["samples"]
    task = tasks.get(spec.name, **spec.params)
    classifiers = [load_model(run).to(device) for run in runs]
    inside = tuple(accuracy(run, TRAINED) * samples for run in runs)
    found = {TRAINED: Point(TRAINED, samples, inside, overflowed(runs, [TRAINED]))}
    return found | {n: Point.of(classifiers, task, n, strings, device) for n in lengths}


def to_json(points: Mapping[int, Point]) -> dict[str, Any]:
    """A string that overflows counts as wrong, and is counted by itself too."""
    return {
        str(n): {
            "mean": p.mean,
            "right": list(p.right),
            "strings": p.strings,
            "interval": p.interval,
            "overflowed": p.overflowed,
        }
        for n, p in points.items()
    }
