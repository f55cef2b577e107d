"""Two ways to compose transitions: RegularGPT's tree, a group of layers a level, and the linear RNN's scan.

Both learn to multiply what the tokens do to a state. The tree does it with a nonlinear node in log2 T levels, all nodes
of a level at once; the recurrence with a matrix product, a token after another or by a scan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from ... import tasks
from ...lab import Experiment, Run, load_model, plan
from ...lab.statistics import Summary, overflowed, summary
from ...models.token_classifier import equal_tokens
from ...report import Panel, line_chart, text_table
from ...report.formatting import count, duration, percent
from ...report.overflow import overflow_note, overflow_of_runs
from ..base import Recipe, Scale
from ..regulargpt.timing import in_turn

TASKS: dict[str, dict[str, Any]] = {
    "parity": {},
    "cycle-navigation": {},
    "modular-sum": {"modulus": 5},
    "even-pairs": {"symbols": 5},
}


class Model(NamedTuple):
    name: str
    settings: dict[str, Any]


MODELS = {
    "RegularGPT": Model("regular-gpt", {"task.supervision": "last"}),
    "linear RNN": Model("block-lrnn", {"task.supervision": "last"}),
    "linear RNN, every prefix": Model("block-lrnn", {"task.supervision": "prefix"}),
    "automaton, every prefix": Model("block-lrnn", {"task.supervision": "prefix", "model.variant": "automaton"}),
}
"""A recurrence has an answer at every prefix at no cost; the tree is built for the last one."""
TRAINED = (1, 40)
LENGTHS: dict[Scale, tuple[int, ...]] = {
    "smoke": (40, 60),
    "laptop": (40, 500, 2_000),
    "paper": (40, 500, 1_000, 2_000, 10_000),
}
TIMED: dict[Scale, int] = {"smoke": 60, "laptop": 500, "paper": 500}
BATCH = 64
REPEATS: dict[Scale, int] = {"smoke": 1, "laptop": 5, "paper": 9}
SETTINGS: dict[Scale, dict[str, Any]] = {
    "smoke": {
        "seeds": 1,
        "model.width": 16,
        "training.steps": 2,
        "training.batch": 8,
        "training.validation_samples": 16,
        "evaluation.samples": 4,
    },
    "laptop": {"seeds": 2, "model.width": 64, "training.steps": 600, "evaluation.samples": 64},
    "paper": {
        "seeds": 3,
        "model.width": 256,
        "training.steps": 100_000,
        "training.lr": 3e-4,
        "training.validate_every": 1000,
        "evaluation.samples": 512,
    },
}


def seam(scale: Scale) -> Recipe:
    """RegularGPT's tree and the linear RNN's scan on the same tasks: accuracy to 2,000 tokens, time and size."""
    cells = {(task, label): cell(scale, task, label) for task in TASKS for label in MODELS}

    def panels(runs: list[Run]) -> list[Panel]:
        found = {run.experiment.hash: run for run in runs}
        mine = {key: of for key, es in cells.items() if (of := [found[e.hash] for e in es if e.hash in found])}
        drawn = [_drawn(task, mine) for task in dict.fromkeys(task for task, _ in mine)]
        return [_table(scale, mine), *drawn] if mine else []

    return Recipe(
        title="A tree and a scan: RegularGPT beside the block-diagonal linear RNN",
        description=(
            "Both compose what the tokens do to a state. RegularGPT folds the string in log2 T levels of one shared "
            "nonlinear layer; the linear RNN multiplies one matrix a token. Trained alike: the same strings of 1 to 40 "
            "tokens, steps, batch, learning rate and width. Every prefix: the linear RNN is also asked for the answer "
            "of every prefix, which costs it nothing. Automaton: its blocks are functions on states."
        ),
        experiments=[e for es in cells.values() for e in es],
        panels=panels,
    )


def cell(scale: Scale, task: str, label: str) -> list[Experiment]:
    model = MODELS[label]
    given = {**SETTINGS[scale], **model.settings, "training.lengths": TRAINED}
    seeds, supervision = given.pop("seeds"), given.pop("task.supervision")
    made = tasks.get(task, **TASKS[task], supervision=supervision)
    return plan(made, [model.name], seeds=seeds, test_lengths=LENGTHS[scale], settings=given)


Cells = Mapping[tuple[str, str], Sequence[Run]]


def timed(
    classifiers: Mapping[str, nn.Module], task: tasks.Task, length: int, repeats: int
) -> dict[str, dict[str, float]]:
    """Median seconds a string by model, alone and in a batch, the models taken in turn; the last position's answer."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    text = task.test_set(length, BATCH).tokens.to(device)

    @torch.no_grad()
    def ask(classifier: nn.Module, strings: int) -> None:
        with equal_tokens(classifier, reused=True):
            classifier(text[:strings], last=True)

    found: dict[str, dict[str, float]] = {label: {} for label in classifiers}
    ready = {label: classifier.to(device) for label, classifier in classifiers.items()}
    for what, strings in (("alone", 1), ("batch", BATCH)):
        calls = {label: partial(ask, classifier, strings) for label, classifier in ready.items()}
        for label, seconds in in_turn(calls, repeats).items():
            found[label][what] = seconds / strings
    return found


def _table(scale: Scale, cells: Cells) -> Panel:
    rows, data = [], []
    lengths, n = LENGTHS[scale], TIMED[scale]
    for task in dict.fromkeys(task for task, _ in cells):
        mine = {label: cells[task, label] for label in MODELS if (task, label) in cells}
        classifiers = {label: load_model(runs[0]) for label, runs in mine.items()}
        times = timed(classifiers, tasks.get(task, **TASKS[task]), n, REPEATS[scale])
        for label, runs in mine.items():
            found = {length: summary(runs, [length]) for length in lengths}
            train = sum(run.result["seconds"]["train"] for run in runs) / len(runs)
            row = {
                "task": task,
                "model": label,
                "seeds": len(runs),
                "parameters": runs[0].result["parameters"],
                "train_seconds": train,
                "seconds_a_string": times[label],
                "accuracy": {str(length): _numbers(s) for length, s in found.items()},
                "overflowed": {str(length): overflowed(runs, [length]) for length in lengths},
            }
            data.append(row)
            rows.append(
                [
                    f"{task}, {label}",
                    *(_written(found[length]) for length in lengths),
                    percent(found[lengths[-1]].baseline),
                    duration(train),
                    f"{1e3 * times[label]['alone']:.1f}",
                    f"{1e3 * times[label]['batch']:.2f}",
                    count(row["parameters"]),
                ]
            )
    head = ["", *(f"{length:,}" for length in lengths), "majority", "training", "ms alone", "ms in batch", "size"]
    device = "the GPU" if torch.cuda.is_available() else f"the CPU, threads: {torch.get_num_threads()}"
    caption = (
        "Accuracy in % at the last checkpoint, max / mean over seeds. Training: a run's time. Milliseconds a string of "
        f"{n:,} tokens, alone and in a batch of {BATCH}, the last answer only, on {device}; medians of "
        f"{REPEATS[scale]}, the models in turn."
    )
    where = overflow_note({f"{task}, {label}": overflow_of_runs(runs) for (task, label), runs in cells.items()})
    return text_table("Accuracy, time and size", f"{caption} {where}".strip(), head, rows, data)


def _numbers(s: Summary) -> dict[str, float | None]:
    return {"max": s.max, "mean": s.mean, "std": s.std, "majority": s.baseline}


def _written(s: Summary) -> str:
    return percent(s.mean) if s.std is None else f"{percent(s.max)} / {percent(s.mean)}"


def _drawn(task: str, cells: Cells) -> Panel:
    series = {}
    for label in MODELS:
        if runs := cells.get((task, label)):
            lengths = runs[0].experiment.evaluation.lengths
            series[label] = (lengths, [summary(runs, [n]).mean for n in lengths])
    return line_chart(
        f"{task}, trained on 1–40",
        "Mean over seeds at the last checkpoint.",
        "tokens",
        "accuracy",
        series,
        log_x=True,
        percent=True,
    )
