"""Which chunk size learns which task, and why a larger one fails: accuracies beside the tuples there are to learn."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from .... import tasks
from ....lab import Experiment, Run, plan
from ....lab.statistics import accuracy, score
from ....report import Panel, heat_map
from ....report.formatting import percent
from ...base import Recipe, Scale
from ...common.grid import Cell, Grid
from ...papers.regulargpt.table_1 import thinned
from .causes import RIGHT, Accuracy, Causes, causes, counted, together

TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "even-pairs": ("even-pairs", {}),
    "parity": ("parity", {}),
    "cycle-navigation": ("cycle-navigation", {}),
    "modular-arithmetic": ("modular-arithmetic", {"leading_plus": True}),
    "d-4": ("d-4", {}),
    "tomita-5": ("tomita-5", {}),
    "word-problem S3": ("word-problem", {"group": "S3"}),
    "word-problem A5": ("word-problem", {"group": "A5"}),
}
HARD = "modular-arithmetic"
CHUNKS = (2, 3, 4, 5, 8)
HARD_CHUNKS, HARD_THICKNESS = (2, 3, 4), (1, 2, 3)
TRAINED, TESTED = (1, 40), (41, 500)


class Setting(NamedTuple):
    seeds: int
    lengths: int
    """How many lengths beyond training are tested, about."""
    train: dict[str, Any]
    hard: dict[str, Any]
    """What is different in the map of modular arithmetic."""


SETTINGS: dict[Scale, Setting] = {
    "smoke": Setting(
        1,
        2,
        {
            "model.width": 16,
            "training.steps": 2,
            "training.batch": 8,
            "training.validation_samples": 16,
            "tests.samples": 4,
        },
        {},
    ),
    "laptop": Setting(
        1,
        12,
        {"model.width": 64, "training.steps": 1000, "tests.samples": 64},
        {"model.width": 128, "training.steps": 1500, "training.betas": (0.9, 0.98)},
    ),
    "paper": Setting(
        3,
        48,
        {
            "model.width": 256,
            "training.lr": 3e-4,
            "training.steps": 100_000,
            "training.validate_every": 1000,
            "tests.samples": 512,
        },
        {"training.betas": (0.9, 0.98)},
    ),
}


class Key(NamedTuple):
    task: str
    """A label of `TASKS`."""
    chunk: int
    thickness: int
    hard: bool
    """Of the map of modular arithmetic, where training is longer."""


Runs = Mapping[Key, list[Run]]


def recipe(scale: Scale) -> Recipe:
    """RegularGPT with chunk sizes from 2 to 8 on eight tasks, and why larger chunks fail."""
    setting = SETTINGS[scale]
    keys = [Key(label, C, 1, False) for label in TASKS for C in CHUNKS]
    keys += [Key(HARD, C, K, True) for C in HARD_CHUNKS for K in HARD_THICKNESS]

    def report(finished: Runs, device: str) -> list[Panel]:
        wide = {key: runs for key, runs in finished.items() if not key.hard}
        hard = {key: runs for key, runs in finished.items() if key.hard}
        why = {label: explained(label, setting) for label in dict.fromkeys(key.task for key in wide)}
        scores = [
            Accuracy(key.task, key.chunk, _mean(runs, False), _mean(runs, True), _majority(runs))
            for key, runs in wide.items()
        ]
        panels = [_beyond(wide), _inside(wide), *counted(why), together(scores, why)] if wide else []
        return panels + ([_hard(hard)] if hard else [])

    return Recipe(
        title="RegularGPT: which chunk size for which task",
        description=(
            "The paper finds that C = 3 fails on Modular Arithmetic where C = 2 learns it, and explains this by the "
            "number of transitions that a node composes at once. Here chunk sizes from 2 to 8 get the same number of "
            "steps on eight tasks. Beside the accuracies stand the number of tuples of transitions that a node must "
            "know, the number of nodes that training shows, and how many tuples of long strings training never shows."
        ),
        grid=Grid([Cell(key, partial(planned, key, setting), label=key.task) for key in keys]),
        report=report,
    )


def task_of(label: str) -> tasks.Task:
    name, params = TASKS[label]
    return tasks.get(name, **params)


def planned(key: Key, setting: Setting) -> list[Experiment]:
    """Lengths grow as they are learned: without that nothing of modular arithmetic is."""
    task = task_of(key.task)
    lengths = thinned(task.lengths(*TESTED), setting.lengths)
    return plan(
        task,
        ["regular-gpt"],
        seeds=setting.seeds,
        test_lengths=[*(task.lengths(*TRAINED) if key.task == HARD else []), *lengths],
        settings={
            **setting.train,
            **(setting.hard if key.hard else {}),
            "training.lengths": TRAINED,
            "training.curriculum": "growing",
            "model.chunk": key.chunk,
            "model.thickness": key.thickness,
        },
    )


def explained(label: str, setting: Setting) -> Causes:
    """For all chunk sizes, with as many training strings as the runs had."""
    task = task_of(label)
    count = setting.train["training.steps"] * setting.train.get("training.batch", 128)
    return causes(task, CHUNKS, TRAINED, count, task.lengths(*TESTED)[-1], setting.train["tests.samples"])


def _lengths(run: Run, beyond: bool) -> list[int]:
    return [n for n in run.experiment.tests.lengths if (n > TRAINED[1]) == beyond]


def _mean(runs: Sequence[Run], beyond: bool) -> float:
    return statistics.fmean(score(run, _lengths(run, beyond)) for run in runs)


def _majority(runs: Sequence[Run]) -> float:
    return statistics.fmean(runs[0].result["baseline"][str(n)] for n in _lengths(runs[0], True))


def _map(title: str, caption: str, wide: Runs, beyond: bool, names: Mapping[str, str]) -> Panel:
    labels = list(dict.fromkeys(key.task for key in wide))
    scores = {(key.task, key.chunk): _mean(runs, beyond) for key, runs in wide.items()}
    values = [[scores.get((label, C)) for C in CHUNKS] for label in labels]
    rows, columns = [names.get(label, label) for label in labels], [f"C={C}" for C in CHUNKS]
    return heat_map(title, caption, rows, columns, values, corner="accuracy, %", low=0, high=1, percent=True)


def _beyond(wide: Runs) -> Panel:
    runs = next(iter(wide.values()))
    e = runs[0].experiment
    names = {key.task: f"{key.task} (majority {percent(_majority(mine))})" for key, mine in wide.items()}
    return _map(
        f"Beyond training: mean accuracy at {TESTED[0]}–{TESTED[1]}",
        f"Mean over {len(runs)} seed{'s' if len(runs) > 1 else ''} and the lengths tested, {e.tests.samples} "
        f"strings each, after {e.training.steps:,} steps of {e.training.batch} strings, lengths growing from "
        f"{e.training.curriculum.grow_from} to {TRAINED[1]}, width {e.model.options['width']}, K = 1. All cells are "
        "trained alike: what is low here was not learned in so many steps, which is not to say it cannot be.",
        wide,
        True,
        names,
    )


def _inside(wide: Runs) -> Panel:
    return _map(
        f"In training: mean accuracy at {TRAINED[0]}–{TRAINED[1]}",
        "The same runs at lengths trained on. Where this is low the task was not learned in the steps given; where it "
        "is high and the accuracy beyond is not, it was learned without the recursion.",
        wide,
        False,
        {},
    )


def solved(run: Run) -> int:
    """The length up to which the run is right at every length tested; 0 where not even at the first."""
    held = 0
    for n in run.experiment.tests.lengths:
        if accuracy(run, n) < RIGHT:
            break
        held = n
    return held


def _hard(hard: Runs) -> Panel:
    runs = next(iter(hard.values()))
    e = runs[0].experiment
    lengths = {(key.chunk, key.thickness): statistics.fmean(map(solved, mine)) for key, mine in hard.items()}
    values = [[lengths.get((C, K)) for K in HARD_THICKNESS] for C in HARD_CHUNKS]
    best = max(_mean(mine, True) for mine in hard.values())
    return heat_map(
        "Modular arithmetic: the longest length learned",
        f"The length up to which at least {100 * RIGHT:.0f}% of the strings are right at every length tested (mean of "
        f"{len(runs)} seed{'s' if len(runs) > 1 else ''}), after {e.training.steps:,} steps with lengths growing to "
        f"{TRAINED[1]}, width {e.model.options['width']}. The + in front pairs each operator with a number: chunks of "
        f"2 and 4 hold whole pairs, chunks of 3 cut them. The best cell has {percent(best)}% at {TESTED[0]} to "
        f"{TESTED[1]} tokens, the majority answer {percent(_majority(runs))}%.",
        [f"C={C}" for C in HARD_CHUNKS],
        [f"K={K}" for K in HARD_THICKNESS],
        values,
        corner="tokens",
        low=0,
    )
