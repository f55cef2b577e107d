"""Table 1: twelve regular languages; who is right at lengths never trained on?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ... import tasks
from ...lab import Experiment, Run, plan
from ...report import Panel
from ...report.comparison import Cell, Published, Row, comparison
from ..base import Recipe, Scale
from .published import MODELS, TABLE_1
from .scales import RULES, settings
from .shrunk import shrunk

SECTIONS = [
    # (training lengths, lengths beyond, tasks)
    ((1, 40), (41, 500), ("even-pairs", "modular-arithmetic", "parity", "cycle-navigation")),
    (
        (2, 50),
        (51, 100),
        ("d-2", "d-3", "d-4", "d-12", "tomita-3", "tomita-4", "tomita-5", "tomita-6"),
    ),
]
PARAMS: dict[str, dict[str, Any]] = {"modular-arithmetic": {"leading_plus": True}}
"""The released code puts a + first, so that operators and digits come in pairs."""
PUBLISHED_MAJORITY = {"tomita-5": 0.75}
"""Where the published strings are not ours: of odd lengths, which have no word of Tomita 5, ours has none."""

DESCRIPTION = (
    "Each model is trained on strings of up to 40 tokens and tested at 41 to 500 (first four tasks), or of up to 50 "
    "and tested at 51 to 100. A score is the mean of the accuracies over the lengths tested. The paper's Transformer "
    "is a vanilla one with the relative positions of Transformer-XL."
)
NOTE = (
    "No word of odd length is in D_n or Tomita 5. D_n is asked there all the same, as published, which makes its "
    "majority answer 75; Tomita 5 is not, so its published numbers are of an easier test."
)


def table_1(scale: Scale) -> Recipe:
    """RegularGPT, an RNN and a Transformer on twelve regular languages, beside the published accuracies."""
    cells = {(task, model): cell(scale, task, model) for task in TABLE_1 for model in MODELS}

    def panels(runs: list[Run]) -> list[Panel]:
        rows = [task for task in TABLE_1 if any(run.experiment.task.name == task for run in runs)]
        return [compared(cells, runs), *shrunk(scale, rows, MODELS)]

    return Recipe(
        title="RegularGPT, Table 1: regular languages beyond the training length",
        description=DESCRIPTION,
        experiments=[experiment for experiments in cells.values() for experiment in experiments],
        panels=panels,
    )


def cell(scale: Scale, task: str, model: str) -> list[Experiment]:
    """The experiments behind one cell: learning rates × seeds."""
    train, beyond = next((train, beyond) for train, beyond, names in SECTIONS if task in names)
    name, _, chunk = model.partition(" C=")
    given = settings(RULES[scale], task, model)
    seeds, rates, count = (given.pop(key) for key in ("seeds", "learning_rates", "lengths"))
    params = {**PARAMS.get(task, {}), **{k[5:]: given.pop(k) for k in list(given) if k.startswith("task.")}}
    made = tasks.get(task, **params)
    return plan(
        made,
        [name],
        seeds=seeds,
        test_lengths=thinned(made.lengths(*beyond), count),
        learning_rates=rates,
        settings={**given, "training.lengths": train, **({"model.chunk": int(chunk)} if chunk else {})},
    )


def thinned(lengths: Sequence[int], count: int | Literal["every"]) -> list[int]:
    """About `count` of these lengths, evenly, the longest among them.

    The stride is odd, so that odd and even lengths are both there: half the difficulty of some languages is in one.

    >>> thinned(range(41, 501), 4)
    [155, 270, 385, 500]
    """
    stride = 1 if count == "every" else max(1, len(lengths) // count) | 1
    return list(lengths)[::-1][::stride][::-1]


def compared(cells: dict[tuple[str, str], list[Experiment]], runs: list[Run]) -> Panel:
    """Measured beside published, for all of the table that there are runs of."""
    found = {run.experiment.hash: run for run in runs}
    rows = []
    for task, published in TABLE_1.items():
        row = {}
        for model, (most, mean) in zip(MODELS, published, strict=True):
            mine = [found[e.hash] for e in cells[task, model] if e.hash in found]
            if mine:
                row[model] = Cell.of(mine, Published(max=most / 100, mean=mean / 100))
        if row:
            majority = next(iter(row.values())).majority
            rows.append(Row(task, majority, row, PUBLISHED_MAJORITY.get(task, majority)))
    note = NOTE if any(row.label == "tomita-5" or row.label.startswith("d-") for row in rows) else ""
    return comparison("Measured beside published", rows, MODELS, note)
