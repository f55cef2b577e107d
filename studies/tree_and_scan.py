"""Two ways to compose transitions: RegularGPT's tree, a group of layers a level, and the linear RNN's scan.

Both learn to multiply what the tokens do to a state. The tree does it with a nonlinear node in log2 T levels, all nodes
of a level at once; the recurrence with a matrix product, a token after another or by a scan.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from attention_cost import in_turn, machine
from torch import nn

from lengthwise import tasks
from lengthwise.lab import Experiment, Run, Summary, overflowed, plan, summary
from lengthwise.models import equal_tokens
from lengthwise.recipes import Cell, Grid, Recipe, Scale, loaded
from lengthwise.report import Panel, Table, count, duration, line_chart, overflow_note, overflow_of_runs, percent

TASKS: dict[str, dict[str, Any]] = {
    "parity": {},
    "cycle-navigation": {},
    "modular-sum": {"modulus": 5},
    "even-pairs": {"symbols": 5},
}


class TimedModel(NamedTuple):
    preset: str
    supervision: str
    settings: Mapping[str, Any] = {}


MODELS = {
    "RegularGPT": TimedModel("regular-gpt", "last"),
    "linear RNN": TimedModel("block-lrnn", "last"),
    "linear RNN, every prefix": TimedModel("block-lrnn", "prefix"),
    "automaton, every prefix": TimedModel("block-lrnn", "prefix", {"model.variant": "automaton"}),
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
        "tests.samples": 4,
    },
    "laptop": {"seeds": 2, "model.width": 64, "training.steps": 600, "tests.samples": 64},
    "paper": {
        "seeds": 3,
        "model.width": 256,
        "training.steps": 100_000,
        "training.lr": 3e-4,
        "training.validate_every": 1000,
        "tests.samples": 512,
    },
}


Key = tuple[str, str]
"""A cell's task and model."""


def recipe(scale: Scale) -> Recipe:
    """RegularGPT's tree and the linear RNN's scan on the same tasks: accuracy to 2,000 tokens, time and size."""

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        drawn = [_drawn(task, finished) for task in dict.fromkeys(task for task, _ in finished)]
        return [_table(scale, finished, device), *drawn]

    keys = [(task, model) for task in TASKS for model in MODELS]
    return Recipe(
        title="A tree and a scan: RegularGPT beside the block-diagonal linear RNN",
        description=(
            "Both compose what the tokens do to a state. RegularGPT folds the string in log2 T levels of one shared "
            "nonlinear layer; the linear RNN multiplies by one matrix a token. All models have the same strings of 1 "
            "to 40 tokens, number of steps, batch, learning rate and width, but not the same labels. RegularGPT and "
            "the plain linear RNN are told the answer at the last position alone. The models marked every prefix are "
            "told it at every position, up to 40 answers a string instead of one: compare these with each other and "
            "not with RegularGPT. The automaton is a linear RNN whose blocks are functions on states."
        ),
        grid=Grid([Cell(key, partial(planned, scale, *key), label=key[0]) for key in keys]),
        report=report,
    )


def planned(scale: Scale, task: str, label: str) -> list[Experiment]:
    model, settings = MODELS[label], {**SETTINGS[scale], "training.lengths": TRAINED}
    seeds = settings.pop("seeds")
    made = tasks.get(task, **TASKS[task], supervision=model.supervision)
    settings |= model.settings
    return plan(made, [model.preset], seeds=seeds, test_lengths=LENGTHS[scale], settings=settings)


def timed(
    models: Mapping[str, nn.Module], task: tasks.Task, length: int, repeats: int, device: str
) -> dict[str, dict[str, float]]:
    """Median seconds a string by model, alone and in a batch, the models taken in turn; the last position's answer."""
    text = task.test_set(length, BATCH).tokens.to(device)

    @torch.no_grad()
    def answer(model: nn.Module, strings: int) -> None:
        with equal_tokens(model, reused=True):
            model(text[:strings], last=True)

    times: dict[str, dict[str, float]] = {label: {} for label in models}
    for what, strings in (("alone", 1), ("batch", BATCH)):
        calls = {label: partial(answer, model, strings) for label, model in models.items()}
        for label, seconds in in_turn(calls, repeats, device).items():
            times[label][what] = seconds / strings
    return times


def _table(scale: Scale, finished: Mapping[Key, list[Run]], device: str) -> Panel:
    rows, data = [], []
    lengths, n = LENGTHS[scale], TIMED[scale]
    for task in dict.fromkeys(task for task, _ in finished):
        mine = {label: runs for (other, label), runs in finished.items() if other == task}
        models = {label: loaded(runs[:1], device)[0] for label, runs in mine.items()}
        times = timed(models, tasks.get(task, **TASKS[task]), n, REPEATS[scale], device)
        for label, runs in mine.items():
            scores = {length: summary(runs, [length]) for length in lengths}
            train = sum(run.result["seconds"]["train"] for run in runs) / len(runs)
            row = {
                "task": task,
                "model": label,
                "seeds": len(runs),
                "parameters": runs[0].result["parameters"],
                "train_seconds": train,
                "seconds_a_string": times[label],
                "accuracy": {str(length): _numbers(s) for length, s in scores.items()},
                "overflowed": {str(length): overflowed(runs, [length]) for length in lengths},
            }
            data.append(row)
            rows.append(
                [
                    f"{task}, {label}",
                    *(_written(scores[length]) for length in lengths),
                    percent(scores[lengths[-1]].baseline),
                    duration(train),
                    f"{1e3 * times[label]['alone']:.1f}",
                    f"{1e3 * times[label]['batch']:.2f}",
                    count(row["parameters"]),
                ]
            )
    head = ["", *(f"{length:,}" for length in lengths), "majority", "training", "ms alone", "ms in batch", "size"]
    caption = (
        "Accuracy in % at the last checkpoint, max / mean over seeds. Training: the time of a run. Milliseconds: the "
        f"time to answer one string of {n:,} tokens at its last position, alone and in a batch of {BATCH}, on "
        f"{machine(device)}; medians of {REPEATS[scale]}, the models timed in turn."
    )
    where = overflow_note({f"{task}, {label}": overflow_of_runs(runs) for (task, label), runs in finished.items()})
    return Table("Accuracy, time and size", f"{caption} {where}".strip(), head, rows, data=data)


def _numbers(s: Summary) -> dict[str, float | None]:
    return {"max": s.max, "mean": s.mean, "std": s.std, "majority": s.baseline}


def _written(s: Summary) -> str:
    return percent(s.mean) if s.std is None else f"{percent(s.max)} / {percent(s.mean)}"


def _drawn(task: str, finished: Mapping[Key, list[Run]]) -> Panel:
    series = {}
    for (other, label), runs in finished.items():
        if other == task:
            lengths = runs[0].experiment.tests.lengths
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
