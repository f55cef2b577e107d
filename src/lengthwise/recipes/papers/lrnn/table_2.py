"""Table 2: trained on strings of 40 tokens, tested on 500: which linear recurrence has learned the rule?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from .... import tasks
from ....lab import Experiment, Run
from ....lab.statistics import CHECKPOINTS, Checkpoint, overflowed, summary
from ....report import Panel, Table
from ....report.formatting import percent
from ....report.overflow import overflow_note_of_runs
from ...base import Recipe, Scale
from ...common.comparison import LEARNED, ComparedCell, ComparedRow, comparison
from ...common.curves import curves
from ...common.grid import Grid, Model, plan_cell, variant_note
from ...common.rules import differences_from_paper, rules_of, settings_of, table_of


class LengthQuestion(NamedTuple):
    label: str
    params: dict[str, Any]
    trained: int
    tested: int


TASKS = {
    "modular-sum": LengthQuestion("Sum(5)", {"modulus": 5}, 40, 500),
    "even-pairs": LengthQuestion("EvenPair(5)", {"symbols": 5}, 40, 500),
    "modular-arithmetic": LengthQuestion("ModArith(5)", {"modulus": 5}, 39, 499),
}

PUBLISHED = ("block-lrnn", "s4", "s4d", "liquid-s4")
"""The columns of Table 2; the first is the paper's own model, which it calls "Ours"."""
MODELS = {
    **{name: Model(name, {}) for name in PUBLISHED},
    "block-lrnn automaton": Model("block-lrnn", {"model.variant": "automaton"}),
}
"""What is trained; the last is a model of this library."""
LABELS = {"block-lrnn": "paper's “Ours”", "block-lrnn automaton": "automaton (this library)"}
"""How a model is called on the page, where its name does not say whose it is."""

TABLE_2: dict[str, list[float]] = table_of(__name__)["published"]
"""Accuracy at length 500 (499) after training at 40 (39), one number for each of `PUBLISHED`."""

RULES, PROSE = rules_of(__name__), table_of(__name__)["prose"]
SAME = "Tasks, the length tested and what is asked in training are the published ones."

Key = tuple[str, str]
"""A cell's task and model."""


def recipe(scale: Scale) -> Recipe:
    """The block-diagonal linear RNN, S4, S4D and Liquid-S4 on three tasks, beside the published accuracies."""

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        rows = list(dict.fromkeys(task for task, _ in finished))
        return [
            compared(finished),
            checkpoints(finished),
            *(_learning(task, finished) for task in rows),
            *differences_from_paper(RULES, scale, rows, MODELS, SAME),
        ]

    return Recipe(
        title="Block-diagonal linear RNN, Table 2: from 40 tokens to 500",
        description=PROSE["description"],
        grid=Grid.table(TASKS, MODELS, partial(planned, scale)),
        report=report,
    )


def planned(scale: Scale, task: str, model: str) -> list[Experiment]:
    """The seeds behind one cell, tested at the training length and at the long one."""
    question, settings = TASKS[task], settings_of(RULES[scale], task, model)
    made, lengths = tasks.get(task, **question.params, supervision=settings.pop("supervision")), question[-2:]
    experiments = plan_cell(made, MODELS[model], settings, lengths)
    # A curriculum of shorter strings would have them tested too.
    return [replace(e, tests=replace(e.tests, lengths=lengths)) for e in experiments]


def compared(finished: Mapping[Key, Sequence[Run]]) -> Panel:
    """Measured beside published, for all of the table that there are runs of."""
    rows = []
    for task, published in TABLE_2.items():
        row = {
            model: ComparedCell.of(finished[task, model], {"mean": number})
            for model, number in zip(PUBLISHED, published, strict=True)
            if (task, model) in finished
        }
        if row:
            rows.append(ComparedRow(TASKS[task].label, next(iter(row.values())).majority, row))
    ours = {key: runs for key, runs in finished.items() if key[1] == "block-lrnn"}
    whose = variant_note(ours, "block-lrnn", "The paper's “Ours”, its block-diagonal linear RNN,")
    return comparison("Measured beside published", rows, PUBLISHED, f"{whose} {PROSE['note']}".strip(), LABELS)


def checkpoints(finished: Mapping[Key, Sequence[Run]]) -> Panel:
    """Both checkpoints at both lengths, and which failures prove nothing."""
    rows, data = [], []
    for (task, model), runs in finished.items():
        question = TASKS[task]
        at: dict[str, tuple[int, Checkpoint]] = {
            f"{checkpoint} at {n}": (n, checkpoint)
            for checkpoint in CHECKPOINTS
            for n in (question.trained, question.tested)
        }
        scores = {what: summary(runs, [n], checkpoint) for what, (n, checkpoint) in at.items()}
        majority = {n: runs[0].result["baseline"][str(n)] for n in (question.trained, question.tested)}
        failed = scores[f"last at {question.trained}"].mean < LEARNED
        published = TABLE_2[task][PUBLISHED.index(model)] if model in PUBLISHED else None
        data.append(
            {
                "row": question.label,
                "model": model,
                "seeds": len(runs),
                "majority": majority,
                "published": published,
                "fails_in_training": failed,
                **{what: {"max": s.max, "mean": s.mean, "std": s.std} for what, s in scores.items()},
                "overflowed": {what: overflowed(runs, [n], checkpoint) for what, (n, checkpoint) in at.items()},
            }
        )
        spread = [
            percent(s.mean) if s.std is None else f"{percent(s.max)} / {percent(s.mean)} ± {100 * s.std:.1f}"
            for s in scores.values()
        ]
        verdict = "fails already in training" if failed else "learned"
        numbers = [percent(majority[question.tested]), *spread, "–" if published is None else percent(published)]
        rows.append([_named(task, model), *numbers, verdict])
    head = ["", "majority", "last, 40", "last, 500", "best, 40", "best, 500", "published", "at the training length"]
    return Table("Both checkpoints, at the training length and beyond", _caption(finished), head, rows, data=data)


def _caption(finished: Mapping[Key, Sequence[Run]]) -> str:
    seeds = sorted({len(runs) for runs in finished.values()})
    return (
        f"Accuracy at the last position in %, max / mean ± sample deviation over {' or '.join(map(str, seeds))} "
        f"seed{'' if seeds == [1] else 's'}; ModArith(5) at 39 and 499. Last: after the last step. Best: the "
        "checkpoint with the best accuracy on validation strings of the training lengths. Fails already in training: "
        f"the mean of the last checkpoints at the training length is below {100 * LEARNED:.0f}%, so that the failure "
        "beyond it proves nothing about length. "
        f"{overflow_note_of_runs({_named(*key): runs for key, runs in finished.items()})}"
    ).strip()


def _named(task: str, model: str) -> str:
    return f"{TASKS[task].label}, {LABELS.get(model, model)}"


def _learning(task: str, finished: Mapping[Key, Sequence[Run]]) -> Panel:
    mine = {model: runs for (of, model), runs in finished.items() if of == task}
    grown = [model for model, runs in mine.items() if runs[0].experiment.training.curriculum.kind == "growing"]
    caption = "Mean over seeds, at the last position of strings of the training lengths."
    if grown:
        caption += f" Of {' and '.join(grown)} these are all up to {TASKS[task].trained}, for its strings grow."
    return curves(f"Learning {TASKS[task].label}", caption, mine)
