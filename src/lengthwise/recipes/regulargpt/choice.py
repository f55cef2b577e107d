"""A chunk chosen by training: the paper leaves a data-driven C open; what does one gain?

One model with a tree for each C in 2 … 4 (models/learned_chunk.py) learns which C explains the answers; beside it
stand the models of Table 1, which were given C = 2 or C = 3.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ...lab import Experiment, Run, load_model, plan
from ...lab.statistics import summary
from ...report import Panel, text_table
from ...report.formatting import duration, percent, spread
from ..base import Recipe, Scale
from .scales import RULES
from .scales import settings as rules
from .table_1 import cell

TASKS = ("even-pairs", "parity", "cycle-navigation", "tomita-3")
LARGEST = 4
GIVEN = ("regular-gpt C=2", "regular-gpt C=3")
SEEDS: dict[Scale, int] = {"smoke": 1, "laptop": 2, "paper": 3}


def choice(scale: Scale) -> Recipe:
    """A chunk size chosen by training, beside Table 1's models of C = 2 and C = 3."""
    given = {(task, model): cell(scale, task, model) for task in TASKS for model in GIVEN}
    chosen = {task: planned(scale, given[task, GIVEN[0]][0]) for task in TASKS}

    def panels(runs: list[Run]) -> list[Panel]:
        found = {run.experiment.hash: run for run in runs}

        def mine(experiments: list[Experiment]) -> list[Run]:
            return [found[e.hash] for e in experiments if e.hash in found]

        rows, data = [], []
        for task in TASKS:
            for label, runs_of in [(f"chosen from 2–{LARGEST}", mine(chosen[task]))] + [
                (model.removeprefix("regular-gpt "), mine(given[task, model])) for model in GIVEN
            ]:
                if runs_of:
                    row, words = _row(runs_of)
                    data.append({"task": task, "model": label, **row})
                    rows.append([task, label, *words])
        head = ["task", "chunk", "chosen, by seed (p)", "training lengths", "beyond", "max", "training"]
        caption = (
            "Accuracy in %, mean ± std over seeds, at the last checkpoint: at lengths trained on and at those beyond. "
            "p: the weight of the chosen tree in the mixture at the end. The choice trains three trees for one, so it "
            "costs the time of three; it spares trying each C in turn. Afterwards one tree is left."
        )
        return [text_table("The chunk that training chose", caption, head, rows, data)] if rows else []

    return Recipe(
        title="RegularGPT: a chunk size chosen by training",
        description=(
            "The loss is that of the mixture P(y|x) = Σ p_C P_C(y|x), over trees of chunk size C that share their "
            "layers; p is learned with them. Does training find the C which a sweep over C would?"
        ),
        experiments=[e for of in [*chosen.values(), *given.values()] for e in of],
        panels=panels,
    )


def planned(scale: Scale, like: Experiment) -> list[Experiment]:
    """As a cell of Table 1, on the same strings, but that C is left to training."""
    given = rules(RULES[scale], like.task.name, GIVEN[0])
    extra = ("seeds", "learning_rates", "lengths", "model.variant")
    return plan(
        like.task.name,
        ["regular-gpt"],
        seeds=SEEDS[scale],
        test_lengths=like.evaluation.lengths,
        learning_rates=given["learning_rates"][-1:],
        settings={
            **{k: v for k, v in given.items() if k not in extra},
            "training.lengths": like.training.curriculum.lengths,
            "model.largest_chunk": LARGEST,
        },
    )


def _row(runs: list[Run]) -> tuple[dict[str, Any], list[str]]:
    """One line of the table, in numbers and in words."""
    first = runs[0].experiment
    edge = first.training.curriculum.lengths[1]
    inside = summary(runs, [n for n in first.evaluation.lengths if n <= edge])
    beyond = summary(runs, [n for n in first.evaluation.lengths if n > edge])
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
