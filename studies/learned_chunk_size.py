"""A chunk size learned by training: RegularGPT's paper leaves a data-driven C open; what does one gain?

One model with a tree for each C in 2 … 4 (its preset's `largest_chunk`) learns which C explains the answers; beside it
stand the models of Table 1, which were given C = 2 or C = 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from lengthwise import tasks
from lengthwise.lab import Experiment, Run, load_model, plan, summary
from lengthwise.recipes import Cell, Grid, Recipe, Scale, settings_of
from lengthwise.recipes.papers.regulargpt import table_1
from lengthwise.report import Panel, Table, duration, percent, spread

TASKS = ("even-pairs", "parity", "cycle-navigation", "tomita-3")
LARGEST = 4
GIVEN = ("regular-gpt C=2", "regular-gpt C=3")
SEEDS: dict[Scale, int] = {"smoke": 1, "laptop": 2, "paper": 3}


Key = tuple[str, str | None]
"""A task, and the model of Table 1 whose chunk size was given; None where it is learned."""


def recipe(scale: Scale) -> Recipe:
    """RegularGPT whose chunk size is learned in training, beside Table 1's models with C = 2 and C = 3."""

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        rows, data = [], []
        for (task, model), runs in finished.items():
            label = f"C={table_1.MODELS[model].settings['model.chunk']}" if model else f"chosen from 2–{LARGEST}"
            row, words = _row(runs)
            data.append({"task": task, "model": label, **row})
            rows.append([task, label, *words])
        head = ["task", "chunk", "chosen, by seed (p)", "training lengths", "beyond", "max", "training"]
        caption = (
            "Accuracy in %, mean ± std over seeds, at the last checkpoint: at lengths trained on and at those beyond. "
            "p: the weight of the chosen tree in the mixture at the end. Learning the choice trains three trees, so it "
            "takes the time of three, but spares one training for each C. Afterwards one tree is left."
        )
        return [Table("The chunk that training chose", caption, head, rows, data=data)]

    return Recipe(
        title="RegularGPT: a chunk size chosen by training",
        description=(
            "The loss is that of the mixture P(y|x) = Σ p_C P_C(y|x) of trees with different chunk sizes C, which "
            "share their layers. p is learned with the layers. Does training find the C that trying each C would?"
        ),
        grid=Grid(list(_cells(scale))),
        report=report,
    )


def _cells(scale: Scale) -> Iterator[Cell[Key]]:
    for task in TASKS:
        yield Cell((task, None), partial(planned, scale, task), label=task)
        for model in GIVEN:
            yield Cell((task, model), partial(table_1.planned, scale, task, model), label=task)


def planned(scale: Scale, task: str) -> list[Experiment]:
    """As a cell of Table 1, on the same strings, except that C is learned."""
    like = table_1.planned(scale, task, GIVEN[0])[0]
    settings = settings_of(table_1.RULES[scale], task, GIVEN[0])
    settings["training.lr"] = settings["learning_rates"][-1]
    for name in ("seeds", "learning_rates", "lengths", "supervision", "model.variant"):
        settings.pop(name)
    return plan(
        tasks.get(task, **like.task.params),
        [table_1.MODELS[GIVEN[0]].preset],
        seeds=SEEDS[scale],
        test_lengths=like.tests.lengths,
        settings={**settings, "training.lengths": like.training.curriculum.lengths, "model.largest_chunk": LARGEST},
    )


def _row(runs: list[Run]) -> tuple[dict[str, Any], list[str]]:
    """One line of the table, in numbers and in words."""
    first = runs[0].experiment
    edge = first.training.curriculum.lengths[1]
    inside = summary(runs, [n for n in first.tests.lengths if n <= edge])
    beyond = summary(runs, [n for n in first.tests.lengths if n > edge])
    picks: list[dict[int, float]] = []
    if first.model.options.get("largest_chunk"):
        picks = [load_model(run).inner.depth.probabilities for run in runs]  # pyright: ignore
    likeliest = [max(p, key=lambda c: p[c]) for p in picks]
    seconds = sum(run.result["seconds"]["train"] for run in runs) / len(runs)
    numbers = {
        "seeds": [run.experiment.seed for run in runs],
        "probabilities": [{str(c): round(value, 4) for c, value in p.items()} for p in picks],
        "inside": asdict(inside),
        "beyond": asdict(beyond),
        "train_seconds": seconds,
    }
    chosen = ", ".join(f"{c} ({p[c]:.2f})" for c, p in zip(likeliest, picks, strict=True)) or "given"
    return numbers, [chosen, spread(inside), spread(beyond), percent(beyond.max), duration(seconds)]
