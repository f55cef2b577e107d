"""Measured beside published: a row per task, a column per model, and a word on whether the two agree.

A cell holds one score a run (the mean accuracy over the lengths beyond training). Its maximum and its mean over the
runs are judged, each against the published one; where only one of the two was published, that one alone. With m the
measured, p the published number and b the majority baselines:

    near:           |m − p| <= 5 points
    learned:        here the mean accuracy at the training lengths is at least 95
    beyond chance:  p is more than 5 points above b_published: there it was learned
    agrees:         learned, near, and the published is beyond chance;  differs: learned, and one of both is not near
    vacuous:        near, but not learned here or there: two models that know nothing score alike
    not learned:    not learned, and one of them is not near: failing beyond the training lengths proves nothing
    one seed:       there is one run, and it proves neither
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...errors import Error
from ...lab import Run
from ...lab.choices import chosen_runs
from ...lab.statistics import Checkpoint, score
from ...report import Table, TableCell
from ...report.formatting import percent
from ...report.overflow import overflow_note, overflow_of_runs

WITHIN = 0.05
"""Numbers as near as this agree: such a difference changes no conclusion about who generalises."""
LEARNED = 0.95
"""A model below this at its training lengths has not learned the task."""

Verdict = Literal["agrees", "differs", "vacuous", "not learned", "one seed"]
MARKS: dict[Verdict, str] = {
    "agrees": "✓ agrees",
    "differs": "≠ differs",
    "vacuous": "– vacuous",
    "not learned": "– not learned",
    "one seed": "– one seed",
}
SAID: dict[Verdict, tuple[str, str]] = {
    "differs": ("differ", ""),
    "vacuous": (
        "say",
        " nothing though the numbers are near (vacuous), for the task was not learned at the training lengths, or the "
        "published model guesses",
    ),
    "not learned": ("prove", " nothing, for the task was not learned at the training lengths"),
    "one seed": ("rest", " on one seed, which shows nothing"),
}
"""A verb and the rest of the sentence about so many cells."""


Published = Mapping[Literal["max", "mean"], float]
"""What the paper prints for one cell: the maximum over its runs, their mean, or both."""


@dataclass(frozen=True)
class ComparedCell:
    """What was measured in one cell, and what was published for it."""

    scores: tuple[float, ...]
    """One a seed: beyond the training lengths, at the last checkpoint."""
    published: Published
    majority: float
    """The accuracy of the best constant answer at the same lengths."""
    inside: float
    """Mean accuracy at the training lengths."""
    best: tuple[float, ...] = ()
    """The same scores at the checkpoint of the best validation."""
    rates: tuple[float, ...] = ()
    """Scores of every learning rate and seed, where there are several rates; `scores` are then of the best rate."""
    overflow: str = ""
    """Where logits overflowed and so were wrong, in words (`words.overflow`)."""

    @classmethod
    def of(cls, runs: Sequence[Run], published: Published) -> ComparedCell:
        """One model's runs, which may differ in seed and learning rate."""
        chosen, high = chosen_runs(runs, ["training.lr"]), runs[0].experiment.training.curriculum.lengths[1]
        beyond = [n for n in sorted(set(runs[0].experiment.tests.lengths)) if n > high]

        def scores(mine: Sequence[Run], checkpoint: Checkpoint = "last") -> tuple[float, ...]:
            return tuple(score(run, beyond, checkpoint) for run in mine)

        return cls(
            scores=scores(chosen),
            published=published,
            majority=statistics.fmean(runs[0].result["baseline"][str(n)] for n in beyond),
            inside=inside(chosen),
            best=scores(chosen, "best"),
            rates=scores(runs) if len(chosen) < len(runs) else (),
            overflow=overflow_of_runs(chosen),
        )

    @property
    def learned(self) -> bool:
        return self.inside >= LEARNED

    @property
    def near(self) -> dict[str, bool]:
        """Whether the measured maximum and mean are near the published ones, of those that were published."""
        ours = {"max": max(self.scores), "mean": statistics.fmean(self.scores)}
        within = WITHIN + 1e-9  # 0.95 is within 0.05 of 1.
        return {name: abs(ours[name] - p) <= within for name, p in self.published.items()}

    def verdict(self, published_majority: float) -> Verdict:
        near = all(self.near.values())
        if len(self.scores) == 1:
            return "one seed"
        if near:
            guessed = max(self.published.values()) <= published_majority + WITHIN
            return "agrees" if self.learned and not guessed else "vacuous"
        return "differs" if self.learned else "not learned"


@dataclass(frozen=True)
class ComparedRow:
    label: str
    majority: float
    cells: Mapping[str, ComparedCell]
    """By column; a model without runs has none."""
    published_majority: float | None = None
    """The majority baseline of the published strings, where it was another one."""

    @property
    def their_majority(self) -> float:
        return self.majority if self.published_majority is None else self.published_majority

    def verdict(self, column: str) -> Verdict:
        return self.cells[column].verdict(self.their_majority)


def inside(runs: Sequence[Run]) -> float:
    """The mean accuracy of these runs at the lengths they were trained on."""
    e = runs[0].experiment
    low, high = e.training.curriculum.lengths
    lengths = [n for n in sorted(set(e.tests.lengths)) if low <= n <= high]
    if not lengths:
        raise Error(
            f"comparison: {e.model.name} on {e.task.name} was tested at no length of its training ({low} to {high}): "
            "whether it learned the task is unknown. Add such a length to tests.lengths."
        )
    return statistics.fmean(score(run, lengths) for run in runs)


def comparison(
    title: str,
    rows: Sequence[ComparedRow],
    columns: Sequence[str],
    note: str = "",
    labels: Mapping[str, str] | None = None,
) -> Table:
    """The table; `columns` name the cells, `labels` give some another heading, `note` is added to the caption."""
    there = [column for column in columns if any(column in row.cells for row in rows)]
    headings = {column: (labels or {}).get(column, column) for column in there}
    cells = [
        [
            TableCell(row.label, (("", f"majority answer {percent(row.majority)}"),)),
            *(_cell(row, column) if column in row.cells else "–" for column in headings),
        ]
        for row in rows
    ]
    return Table(
        title,
        f"{_caption(rows, headings)} {note}".strip(),
        ["in %, beyond training", *headings.values()],
        cells,
        data=_data(rows),
        finding=f"Beside the published numbers, {finding(rows, names=False)}",
        lead=finding(rows, headings),
    )


def finding(rows: Sequence[ComparedRow], labels: Mapping[str, str] | None = None, names: bool = True) -> str:
    """How many cells agree with the paper, which differ, and which say nothing since the task was not learned."""
    named: dict[Verdict, list[str]] = {verdict: [] for verdict in MARKS}
    counts: dict[Verdict, int] = dict.fromkeys(named, 0)
    for row in rows:
        for verdict, cells in named.items():
            columns = [(labels or {}).get(column, column) for column in row.cells if row.verdict(column) == verdict]
            counts[verdict] += len(columns)
            cells += [f"{row.label} ({', '.join(columns)})"] * bool(columns)
    sentences = [f"{counts['agrees']} of {sum(counts.values())} cells agree."]
    for verdict, (verb, why) in SAID.items():
        if count := counts[verdict]:
            which = f": {'; '.join(named[verdict])}" * names
            sentences.append(f"{count} {verb}{'s' * (count == 1)}{why}{which}.")
    return " ".join(sentences)


def _caption(rows: Sequence[ComparedRow], labels: Mapping[str, str]) -> str:
    cells = [cell for row in rows for cell in row.cells.values()]
    seeds = sorted({len(cell.scores) for cell in cells})
    published = {name for cell in cells for name in cell.published}
    names = [word for name, word in (("max", "maximum"), ("mean", "mean")) if name in published]
    judged = "both the maximum and the mean are" if len(names) == 2 else f"the {names[0]} is"
    caption = (
        "Accuracy in %: mean ± standard deviation over "
        f"{' or '.join(map(str, seeds))} {'seed' if seeds == [1] else 'seeds'} at the last checkpoint, below it the "
        f"maximum, and {' and '.join(names)} as published. A cell agrees when {judged} within {100 * WITHIN:.0f} "
        "points of the published, and both models have learned the task. Here that is a mean accuracy at the training "
        f"lengths (in training) of at least {100 * LEARNED:.0f}, and for the published number, that it is more than "
        f"{100 * WITHIN:.0f} points above the majority answer. Near numbers without both are vacuous, for two models "
        "that know nothing score alike; a model that did not learn its training lengths proves nothing beyond them."
    )
    if any(cell.rates for cell in cells):
        caption += " The learning rate was chosen by validation; all rates: every rate and seed."
    wrong = overflow_note(
        {f"{row.label}, {labels.get(name, name)}": cell.overflow for row in rows for name, cell in row.cells.items()}
    )
    return f"{caption} {wrong}".strip()


def spread_of(scores: Sequence[float]) -> str:
    """`98.3 ± 1.2`: mean ± sample deviation, or the one score there is."""
    deviation = f" ± {100 * statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
    return f"{percent(statistics.fmean(scores))}{deviation}"


def _cell(row: ComparedRow, column: str) -> TableCell:
    cell = row.cells[column]
    notes = [("max", percent(max(cell.scores)))] if len(cell.scores) > 1 else []
    if cell.rates:
        notes += [("all rates: max", percent(max(cell.rates))), ("all rates: mean", spread_of(cell.rates))]
    notes += [(f"published {name}", f"{100 * number:.1f}") for name, number in cell.published.items()]
    notes += [("in training", percent(cell.inside))]
    mark = MARKS[row.verdict(column)]
    return TableCell(spread_of(cell.scores), tuple(notes), mark, bar=(statistics.fmean(cell.scores), cell.majority))


def _data(rows: Sequence[ComparedRow]) -> list[dict[str, Any]]:
    return [
        {
            "row": row.label,
            "majority": row.majority,
            "published_majority": row.their_majority,
            "cells": {
                column: {
                    "measured": _numbers(cell.scores),
                    "best_validation": _numbers(cell.best),
                    "all_rates": _numbers(cell.rates),
                    "training_lengths": cell.inside,
                    "overflow": cell.overflow,
                    "published": {name: cell.published.get(name) for name in ("max", "mean")},
                    "near": cell.near,
                    "verdict": row.verdict(column),
                }
                for column, cell in row.cells.items()
            },
        }
        for row in rows
    ]


def _numbers(scores: Sequence[float]) -> dict[str, Any] | None:
    if not scores:
        return None
    std = statistics.stdev(scores) if len(scores) > 1 else None
    return {"max": max(scores), "mean": statistics.fmean(scores), "std": std, "scores": list(scores)}
