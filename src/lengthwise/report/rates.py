"""Which learning rate validation chose for each model on each task, where several were tried."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..lab.statistics import best_rate
from .formatting import percent, short_names
from .panel import Panel
from .sections import list_of_runs, task_name
from .table_panels import text_table

if TYPE_CHECKING:
    from ..lab import Run

CAPTION = (
    "Every rate has a row of its own among the results. The chosen one was right most often on validation strings, of "
    "the training lengths; test strings choose nothing."
)


def chosen_learning_rates(runs: Sequence[Run]) -> Panel | None:
    """A row for each model and task of which several rates are there; None where there is none."""
    tried: dict[str, list[Run]] = {}
    for run in list_of_runs(runs):
        e = run.experiment
        tried.setdefault(replace(e, seed=0, training=e.training.but(lr=1.0)).hash, []).append(run)
    names = short_names(run.experiment.model.name for run in runs)
    rows, data = [], []
    for group in tried.values():
        rates = list(dict.fromkeys(run.experiment.training.optimizer.lr for run in group))
        if len(rates) < 2:
            continue
        best = best_rate(group)
        rate, e = best[0].experiment.training.optimizer.lr, best[0].experiment
        right = statistics.fmean(run.result["checkpoints"]["best"]["validation"]["accuracy"] for run in best)
        others = ", ".join(f"{each:g}" for each in rates if each != rate)
        rows.append([f"{task_name(e.task)}, {names[e.model.name]}", f"{rate:g}", percent(right), others])
        data.append({"task": e.task.name, "model": e.model.name, "tried": rates, "chosen": rate, "validation": right})
    if not rows:
        return None
    head = ["task and model", "learning rate", "right on validation, %", "also tried"]
    return text_table("Learning rates chosen by validation", CAPTION, head, rows, data)
