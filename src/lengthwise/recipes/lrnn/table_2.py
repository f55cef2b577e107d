"""Table 2: trained on strings of 40 tokens, tested on 500: which linear recurrence has learned the rule?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ... import tasks
from ...lab import Experiment, Run, plan
from ...lab.statistics import CHECKPOINTS, Checkpoint, overflowed, summary
from ...report import Panel, text_table
from ...report.comparison import LEARNED, Cell, Published, Row, comparison
from ...report.formatting import percent
from ...report.overflow import overflow_note_of_runs
from ..base import Recipe, Scale
from ..chacal.learning import curves
from ..regulargpt.scales import settings
from ..regulargpt.shrunk import shrunk
from .published import MODELS, PUBLISHED, TABLE_2
from .scales import RULES


class Asked(NamedTuple):
    label: str
    params: dict[str, Any]
    trained: int
    tested: int


TASKS = {
    "modular-sum": Asked("Sum(5)", {"modulus": 5}, 40, 500),
    "even-pairs": Asked("EvenPair(5)", {"symbols": 5}, 40, 500),
    "modular-arithmetic": Asked("ModArith(5)", {"modulus": 5}, 39, 499),
}

DESCRIPTION = (
    "Sum(5): digits, their sum modulo 5. EvenPair(5): is the last of five symbols the first? Mostly not, so always "
    "saying no is right in 80%. ModArith(5): digits joined by + − ·, the value modulo 5. Training asks every prefix "
    "that has an answer (of ModArith those that end in a digit), in strings of 40 tokens (39), or of up to as many "
    "where they grow; the test asks the last position of strings of 500 (499) alone. The automaton is no part of the "
    "paper: its blocks are functions on states."
)
NOTE = (
    "A published number is the best of all evaluations on the test strings during training, so it is selected on the "
    "test set, and of an unstated number of runs; here test strings choose nothing."
)
KEPT = "Tasks, the length tested and what is asked in training are the published ones."


def table_2(scale: Scale) -> Recipe:
    """The block-diagonal linear RNN, S4, S4D and Liquid-S4 on three tasks, beside the published accuracies."""
    cells = {(task, model): cell(scale, task, model) for task in TASKS for model in MODELS}

    def panels(runs: list[Run]) -> list[Panel]:
        found = {run.experiment.hash: run for run in runs}
        mine = {key: of for key, es in cells.items() if (of := [found[e.hash] for e in es if e.hash in found])}
        rows = [task for task in TASKS if any(key[0] == task for key in mine)]
        if not rows:
            return []
        drawn = [_learning(task, mine) for task in rows]
        return [compared(mine), checkpoints(mine), *drawn, *shrunk(scale, rows, MODELS, RULES, KEPT)]

    return Recipe(
        title="Block-diagonal linear RNN, Table 2: from 40 tokens to 500",
        description=DESCRIPTION,
        experiments=[experiment for experiments in cells.values() for experiment in experiments],
        panels=panels,
    )


def cell(scale: Scale, task: str, model: str) -> list[Experiment]:
    """The seeds behind one cell, tested at the training length and at the long one."""
    asked, given = TASKS[task], settings(RULES[scale], task, model)
    seeds, supervision = given.pop("seeds"), given.pop("task.supervision")
    made = tasks.get(task, **asked.params, supervision=supervision)
    planned = plan(made, [model.split(" ")[0]], seeds=seeds, test_lengths=[asked.trained, asked.tested], settings=given)
    # A curriculum of shorter strings would have them tested too.
    return [replace(e, evaluation=replace(e.evaluation, lengths=(asked.trained, asked.tested))) for e in planned]


Cells = Mapping[tuple[str, str], Sequence[Run]]


def compared(cells: Cells) -> Panel:
    """Measured beside published, for all of the table that there are runs of."""
    rows = []
    for task, published in TABLE_2.items():
        row = {
            model: Cell.of(cells[task, model], Published(mean=number))
            for model, number in zip(PUBLISHED, published, strict=True)
            if (task, model) in cells
        }
        if row:
            rows.append(Row(TASKS[task].label, next(iter(row.values())).majority, row))
    return comparison("Measured beside published", rows, PUBLISHED, NOTE)


def checkpoints(cells: Cells) -> Panel:
    """Both checkpoints at both lengths, and which failures prove nothing."""
    rows, data = [], []
    for (task, model), runs in cells.items():
        asked = TASKS[task]
        at: dict[str, tuple[int, Checkpoint]] = {
            f"{checkpoint} at {n}": (n, checkpoint) for checkpoint in CHECKPOINTS for n in (asked.trained, asked.tested)
        }
        found = {what: summary(runs, [n], checkpoint) for what, (n, checkpoint) in at.items()}
        majority = {n: runs[0].result["baseline"][str(n)] for n in (asked.trained, asked.tested)}
        failed = found[f"last at {asked.trained}"].mean < LEARNED
        published = TABLE_2[task][PUBLISHED.index(model)] if model in PUBLISHED else None
        data.append(
            {
                "row": asked.label,
                "model": model,
                "seeds": len(runs),
                "majority": majority,
                "published": published,
                "fails_in_training": failed,
                **{what: {"max": s.max, "mean": s.mean, "std": s.std} for what, s in found.items()},
                "overflowed": {what: overflowed(runs, [n], checkpoint) for what, (n, checkpoint) in at.items()},
            }
        )
        spread = [_spread(s.max, s.mean, s.std) for s in found.values()]
        verdict = "fails already in training" if failed else "learned"
        numbers = [percent(majority[asked.tested]), *spread, "–" if published is None else percent(published)]
        rows.append([f"{asked.label}, {model}", *numbers, verdict])
    head = ["", "majority", "last, 40", "last, 500", "best, 40", "best, 500", "published", "at the training length"]
    return text_table("Both checkpoints, at the training length and beyond", _caption(cells), head, rows, data)


def _caption(cells: Cells) -> str:
    seeds = sorted({len(runs) for runs in cells.values()})
    return (
        f"Accuracy at the last position in %, max / mean ± sample deviation over {' or '.join(map(str, seeds))} "
        f"seed{'' if seeds == [1] else 's'}; ModArith(5) at 39 and 499. Last: after the last step. Best: the "
        "checkpoint with the best accuracy on validation strings of the training lengths. Fails already in training: "
        f"the mean of the last checkpoints at the training length is below {100 * LEARNED:.0f}%, so that the failure "
        "beyond it proves nothing about length. "
        f"{overflow_note_of_runs({f'{TASKS[task].label}, {model}': runs for (task, model), runs in cells.items()})}"
    ).strip()


def _spread(most: float, mean: float, std: float | None) -> str:
    return percent(mean) if std is None else f"{percent(most)} / {percent(mean)} ± {100 * std:.1f}"


def _learning(task: str, cells: Cells) -> Panel:
    mine = {model: cells[task, model] for model in MODELS if (task, model) in cells}
    grown = [model for model, runs in mine.items() if runs[0].experiment.training.curriculum.kind == "growing"]
    caption = "Mean over seeds, at the last position of strings of the training lengths."
    if grown:
        caption += f" Of {' and '.join(grown)} these are all up to {TASKS[task].trained}, for its strings grow."
    return curves(f"Learning {TASKS[task].label}", caption, mine)
