"""Learned, then proved: RNN, GRU and LSTM trained as usual and steady, RNN with noise alone besides; seven tasks.

All see strings of at most 40 symbols and their answers, nothing else, and all take the same steps. What differs is the
training alone, so the table says what each part of it is for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from itertools import product
from statistics import median
from typing import Any

from ...lab import Experiment, Run, accuracy, plan
from ...report import Panel, Table
from ...report.formatting import percent
from ..base import Recipe, Scale
from ..common.grid import Cell, Grid
from .networks import NetworkQuestion, networks
from .scales import LAPTOP_TASKS, Budget
from .table import task_of

WAYS: dict[str, dict[str, Any]] = {
    "as usual": {},
    "varied, noise": {"training.varied": 0.5, "training.steady": "on", "training.contraction": 0.0},
    "steady": {"training.varied": 0.5, "training.steady": "on"},
}
"""varied: half of the strings have symbol probabilities of their own; steady: with the penalty on steep steps too."""
MODELS = {"RNN": "rnn", "GRU": "gru", "LSTM": "lstm"}
SEEDS: dict[Scale, dict[tuple[str, str], int]] = {
    "smoke": {("RNN", "steady"): 1, ("GRU", "steady"): 1},
    "laptop": {
        ("RNN", "as usual"): 5,
        ("RNN", "varied, noise"): 2,
        ("RNN", "steady"): 5,
        ("GRU", "as usual"): 2,
        ("GRU", "steady"): 5,
        ("LSTM", "as usual"): 2,
        ("LSTM", "steady"): 5,
    },
    "paper": {(model, way): 10 for model in MODELS for way in WAYS},
}
"""Of each model and way how many seeds."""
TASKS: dict[Scale, tuple[str, ...]] = {"smoke": ("parity",), "laptop": LAPTOP_TASKS, "paper": LAPTOP_TASKS}
STEPS: dict[Scale, int] = {"smoke": 3, "laptop": 3000, "paper": 3000}
QUESTION: dict[Scale, NetworkQuestion] = {
    "smoke": NetworkQuestion(Budget(1.0), None),
    "laptop": NetworkQuestion(Budget(20.0), None),
    "paper": NetworkQuestion(Budget(60.0), None),
}
Key = tuple[str, str, str]
"""A cell's task, model and way of training."""


def recipe(scale: Scale) -> Recipe:
    """RNN, GRU and LSTM trained as usual and steady: which are proved as they were learned, and which are refuted."""

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        decided = {key: [networks(run, QUESTION[scale], device)[0] for run in runs] for key, runs in finished.items()}
        return [_table(scale, finished, decided)]

    return Recipe(
        title="Learned, then proved",
        description=(
            "RNN, GRU and LSTM of width 64 learn seven tasks from strings of at most 40 symbols, an answer after every "
            "prefix. Each network is then held against the machine of its task, as training left it: proved at every "
            "length, refuted by a word, or unknown."
        ),
        grid=Grid(
            [
                Cell((task, *of), partial(planned, scale, task, *of), label=task)
                for task, of in product(TASKS[scale], SEEDS[scale])
            ]
        ),
        report=report,
    )


def planned(scale: Scale, row: str, model: str, way: str) -> list[Experiment]:
    task = task_of(row, "prefix")
    settings = {
        "model.width": 64,
        "training.steps": STEPS[scale],
        "training.batch": 64,
        "training.optimizer": "adamw",
        "training.lr": 3e-3,
        "training.weight_decay": 0.01,
        "training.validation_samples": 256,
        "training.checkpoint_every": 1000,
        "tests.samples": 256,
        **WAYS[way],
    }
    lengths = [task.lengths(30, 40)[-1], task.lengths(490, 500)[-1]]
    return plan(task, [MODELS[model]], seeds=SEEDS[scale][model, way], test_lengths=lengths, settings=settings)


def _table(scale: Scale, finished: Mapping[Key, list[Run]], decided: Mapping[Key, list[Any]]) -> Panel:
    rows, data = [], []
    for (task, model, way), runs in finished.items():
        each = decided[task, model, way]
        words = Counter(network.raw for network in each)
        wrong = [network.wrong for network in each if network.wrong is not None]
        near, far = ([accuracy(run, run.experiment.tests.lengths[at]) for run in runs] for at in (-2, -1))
        seconds = [run.result["seconds"]["train"] for run in runs]
        rows.append(
            [
                task,
                model,
                way,
                *(f"{words[word]} of {len(each)}" for word in ("proved", "refuted", "unknown")),
                str(round(median(wrong))) if wrong else "–",
                " ".join(percent(share) for share in near),
                " ".join(percent(share) for share in far),
                f"{median(seconds):.0f}",
                f"{median(network.seconds for network in each):.0f}",
            ]
        )
        data.append(
            {
                "task": task,
                "model": model,
                "way": way,
                "networks": [
                    {"seed": run.experiment.seed, "at 40": a, "at 500": b, "training": s, **asdict(network)}
                    for run, a, b, s, network in zip(runs, near, far, seconds, each, strict=True)
                ],
            }
        )
    caption = (
        "Seeds fixed beforehand, last checkpoints, nothing chosen by test strings or verdicts. As usual: the task's "
        "own strings. Varied, noise: half of the strings have symbol probabilities of their own; states have noise. "
        "Steady: with a penalty on steep steps besides, and gates that are shut at random. wrong at: the median length "
        "of the shortest words found that networks get wrong. Then the share of right answers at 40 and at 500 symbols "
        "in %, seed by seed, and the "
        f"median seconds of training and of the decision, for which {QUESTION[scale].budget.certify:g} s are given."
    )
    head = [
        "",
        "model",
        "training",
        "proved",
        "refuted",
        "unknown",
        "wrong at",
        "at 40",
        "at 500",
        "train s",
        "decide s",
    ]
    steady = {
        model: [n.raw for (_, of, way), each in decided.items() if (of, way) == (model, "steady") for n in each]
        for _, model, _ in finished
    }
    shares = (f"{made.count('proved')} of {len(made)} {model}s" for model, made in steady.items())
    finding = f"Trained steady, {', '.join(shares)} are proved as they were learned."
    return Table("Proved as learned", caption, head, rows, data=data, labels=3, finding=finding)
