"""Table 2: PARITY with another share of 1s in the test strings; the models are those of Table 1, trained at a half."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import torch

from .... import tasks
from ....evaluate import score_strings
from ....lab import Run
from ....lab.choices import chosen_runs
from ....report import Panel
from ....report.overflow import overflow_text
from ...base import Recipe, Scale
from ...common.comparison import ComparedCell, ComparedRow, comparison, inside
from ...common.grid import loaded, variant_note
from ...common.rules import differences_from_paper, table_of
from .table_1 import OURS, PROSE, RULES, Key, cells

PROBABILITIES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""P(1) in the test strings of PARITY."""
TABLE_2: dict[str, dict[str, list[float]]] = table_of(__name__)["published"]
"""Mean accuracy by setting and model, a number for each of `PROBABILITIES`."""
MODELS = tuple(TABLE_2["length 40"])
STRINGS: dict[Scale, int] = {"smoke": 16, "laptop": 512, "paper": 46_000}
"""How many strings each model is tested on at every probability, spread evenly over the lengths."""


def recipe(scale: Scale) -> Recipe:
    """PARITY, trained on as many 1s as 0s and tested with other shares of 1s."""

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        runs = {model: chosen_runs(mine, ["training.lr"]) for (_, model), mine in finished.items()}
        note = "All models were trained on strings with P(1) = 0.5; P(1) here is that of the test strings."
        note = f"{note} {variant_note(finished, *OURS)}".strip()
        return [
            comparison("Other shares of 1s", varied(runs, STRINGS[scale], device), MODELS, note),
            *differences_from_paper(RULES, scale, ["parity"], MODELS, PROSE["same"]),
        ]

    return Recipe(
        title="RegularGPT, Table 2: PARITY with other probabilities of 1",
        description=(
            "A model that adds up the 1s instead of tracking their parity has seen few strings with very many or very "
            "few of them. The models are those of Table 1, trained on lengths 1 to 40 with as many 1s as 0s; here they "
            "are tested at length 40 and at 41 to 500 with another share of 1s."
        ),
        grid=cells(scale, ["parity"], MODELS),
        report=report,
    )


def varied(runs: Mapping[str, Sequence[Run]], strings: int, device: str) -> list[ComparedRow]:
    """A row for each setting and probability, with the models' accuracies there."""
    trained = {name: loaded(mine, device) for name, mine in runs.items()}
    learned = {name: inside(mine) for name, mine in runs.items()}
    rows = []
    for setting, published in TABLE_2.items():
        for i, p in enumerate(PROBABILITIES):
            task = tasks.get("parity", probabilities=[1 - p, p])
            row = {}
            for name, models in trained.items():
                tested = runs[name][0].experiment.tests.lengths
                lengths = (40,) if setting == "length 40" else tuple(n for n in tested if n > 40)
                each = max(1, strings // len(lengths))
                answers = [
                    score_strings(model, task, lengths, each, seed=0, device=torch.device(device)) for model in models
                ]
                wrong = {n: sum(answer.overflowed.get(str(n), 0) for answer in answers) for n in lengths}
                row[name] = ComparedCell(
                    tuple(statistics.fmean(right / each for right in answer.correct.values()) for answer in answers),
                    {"mean": published[name][i] / 100},
                    majority=statistics.fmean(map(task.baseline, lengths)),
                    inside=learned[name],
                    overflow=overflow_text({n: (bad, each * len(models)) for n, bad in wrong.items()}),
                )
            majority = next(iter(row.values())).majority
            rows.append(ComparedRow(f"{setting}, P(1) = {p}", majority, row))
    return rows
