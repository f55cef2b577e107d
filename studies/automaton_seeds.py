"""Ten seeds of the automaton on Sum(5) and ModArith(5): how many learn the task, and how many are right far beyond.

One seed that succeeds says that a network can learn a task; ten say how often it does. These are the runs of Table 2
(`papers/lrnn/table_2.py`) with other seeds; on ModArith(5) what keeps a stack of functions from being lost is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from lengthwise.lab import Experiment, Run, accuracy
from lengthwise.recipes import LEARNED, Cell, Grid, Recipe, Scale, curves
from lengthwise.recipes.papers.lrnn import table_2
from lengthwise.report import Panel, Table, duration, percent

HOLDS = 0.95
"""A model holds at 500 tokens where at least this share of its strings is right."""
MODEL = "block-lrnn automaton"
ROWS = ("modular-sum", "modular-arithmetic")
SEEDS: dict[Scale, range] = {"smoke": range(80, 82), "laptop": range(80, 90), "paper": range(80, 90)}
"""Others than those on which the settings were found."""
KEPT: dict[str, Any] = {
    "steps": 4000,
    "lr": 4e-3,
    "grow_late": 0.67,
    "steady": "on",
    "silence": False,
    "leave_out": 0.2,
}
"""On ModArith(5), at laptop scale. A flipped column of a learned stack makes noise of all behind it, and while the rate
is high this noise flips others. So every choice is to be ahead of the next (`steady`), and strings are short until the
rate has fallen. Nothing is silenced: while lengths grow, strings are too short to tell what longer ones need. Each
string begins without a fifth of x_0: what several entries carry may else be lost by steps that no short string shows.
"""


def recipe(scale: Scale) -> Recipe:
    """The automaton on Sum(5) and ModArith(5), ten seeds each: how many learn the task and keep it at 500 tokens."""

    def report(finished: Mapping[str, list[Run]], device: str) -> list[Panel]:
        return [_table(finished), *(_learning(task, runs) for task, runs in finished.items())]

    return Recipe(
        title=f"The automaton, {len(SEEDS[scale])} seeds",
        description=(
            "The automaton is a linear RNN whose blocks are functions on states. If every function is the rule's it is "
            "right at every length; a training may end before, right at its own lengths alone. These are the runs of "
            "Table 2 with other seeds, and on ModArith(5) with other settings. Which seeds succeed depends on the "
            "machine: another processor rounds sums of floating-point numbers in another order, and after thousands of "
            "steps the weights differ."
        ),
        grid=Grid([Cell(task, partial(planned, scale, task), label=task) for task in ROWS]),
        report=report,
    )


def planned(scale: Scale, task: str) -> list[Experiment]:
    """The automaton's runs of Table 2, with these seeds."""
    first = table_2.planned(scale, task, MODEL)[0]
    if scale == "laptop" and task == "modular-arithmetic":
        first = replace(first, training=first.training.but(**KEPT))
    return [replace(first, seed=seed) for seed in SEEDS[scale]]


def _table(finished: Mapping[str, list[Run]]) -> Panel:
    rows, data = [], []
    for task, runs in finished.items():
        question = table_2.TASKS[task]
        inside, beyond = ([accuracy(run, n) for run in runs] for n in (question.trained, question.tested))
        numbers: dict[str, Any] = {
            "task": question.label,
            "seeds": len(runs),
            "trained": question.trained,
            "tested": question.tested,
            "learned": sum(a >= LEARNED for a in inside),
            "hold": sum(a >= HOLDS for a in beyond),
            "exact": sum(a == 1 for a in beyond),
            "accuracy": [
                {"seed": run.experiment.seed, str(question.trained): a, str(question.tested): b}
                for run, a, b in zip(runs, inside, beyond, strict=True)
            ],
        }
        data.append(numbers)
        rows.append(
            [
                question.label,
                *(f"{numbers[what]} of {len(runs)}" for what in ("learned", "hold", "exact")),
                " ".join(f"{100 * a:.0f}" for a in inside),
                " ".join(f"{100 * a:.0f}" for a in beyond),
                duration(sum(run.result["seconds"]["train"] for run in runs) / len(runs)),
            ]
        )
    caption = (
        f"How many seeds know the task at the end of training. Learned: right on at least {percent(LEARNED)}% of the "
        f"test strings at the training length (40 tokens, of ModArith(5) 39). Hold: right on at least "
        f"{percent(HOLDS)}% at 500 tokens (499). Exact: right on all of them. Then the accuracy of every seed in %, at "
        "the training length and at the long one, in the order of the seeds. Training: the mean time of a run."
    )
    head = ["", "learned", "hold", "exact", "at 40, seed by seed", "at 500, seed by seed", "training"]
    return Table("How many seeds learn, and how many hold", caption, head, rows, data=data)


def _learning(task: str, runs: list[Run]) -> Panel:
    question = table_2.TASKS[task]
    return curves(
        f"Learning {question.label}, seed by seed",
        f"Accuracy on validation strings of up to {question.trained} tokens, at the last position.",
        {f"seed {run.experiment.seed}": [run] for run in runs},
    )
