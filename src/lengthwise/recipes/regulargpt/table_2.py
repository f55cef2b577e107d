"""Table 2: PARITY with another share of 1s in the test strings; the models are those of Table 1, trained at a half."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import torch

from ... import tasks
from ...evaluate import score_strings
from ...lab import Run, load_model
from ...report import Panel
from ...report.comparison import Cell, Published, Row, best_rate, comparison
from ...report.overflow import overflow_text
from ..base import Recipe, Scale
from .published import PROBABILITIES, TABLE_2
from .shrunk import shrunk
from .table_1 import cell

MODELS = tuple(TABLE_2["length 40"])
STRINGS: dict[Scale, int] = {"smoke": 16, "laptop": 512, "paper": 46_000}
"""How many strings each model is tested on at every probability, spread evenly over the lengths."""


def table_2(scale: Scale) -> Recipe:
    """PARITY, trained on as many 1s as 0s and tested with other shares of 1s."""
    cells = {model: cell(scale, "parity", model) for model in MODELS}

    def panels(runs: list[Run]) -> list[Panel]:
        found = {run.experiment.hash: run for run in runs}
        mine = {model: [found[e.hash] for e in experiments if e.hash in found] for model, experiments in cells.items()}
        rows = varied({model: best_rate(of) for model, of in mine.items() if of}, STRINGS[scale])
        note = "All models were trained on strings with P(1) = 0.5; P(1) here is that of the test strings."
        return [comparison("Other shares of 1s", rows, MODELS, note), *shrunk(scale, ["parity"], MODELS)]

    return Recipe(
        title="RegularGPT, Table 2: PARITY with other probabilities of 1",
        description=(
            "A model that adds up the 1s instead of tracking their parity has seen few strings with very many or very "
            "few of them. The models are those of Table 1, trained on lengths 1 to 40 with as many 1s as 0s; here they "
            "are tested at length 40 and at 41 to 500 with another share of 1s."
        ),
        experiments=[experiment for experiments in cells.values() for experiment in experiments],
        panels=panels,
    )


def varied(runs: dict[str, Sequence[Run]], strings: int) -> list[Row]:
    """A row per setting and probability, the models' mean accuracies there."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    models = {name: [load_model(run).to(device) for run in members] for name, members in runs.items()}
    rows = []
    for setting, published in TABLE_2.items():
        for i, p in enumerate(PROBABILITIES):
            task = tasks.get("parity", probabilities=[1 - p, p])
            cells = {}
            for name, members in models.items():
                tested = runs[name][0].experiment.evaluation.lengths
                lengths = (40,) if setting == "length 40" else tuple(n for n in tested if n > 40)
                each = max(1, strings // len(lengths))
                answered = [score_strings(model, task, lengths, each, seed=0, device=device) for model in members]
                scores = [statistics.fmean(right / each for right in found.correct.values()) for found in answered]
                majority = statistics.fmean(map(task.baseline, lengths))
                bad = {n: sum(found.overflowed.get(str(n), 0) for found in answered) for n in lengths}
                cells[name] = Cell(
                    tuple(scores),
                    Published(mean=published[name][i] / 100),
                    majority,
                    overflow=overflow_text({n: (strings, each * len(members)) for n, strings in bad.items()}),
                )
            majority = next(iter(cells.values())).majority
            rows.append(Row(f"{setting}, P(1) = {p}", majority, cells))
    return rows
