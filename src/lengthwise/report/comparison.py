"""Measured beside published: a row per task, a column per model, and a word on whether the two agree.

A cell holds one score a run (the mean accuracy over the lengths beyond training) and is summed up as max / mean ± std.
With m the measured and p the published maximum (the mean where no maximum was published), and b the majority baselines:

    agrees:  |m − p| <= 5 points,  or  m − b <= 5 points and p − b_published <= 5 points (both guess)
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from ..lab.statistics import Checkpoint, score
from .formatting import percent
from .overflow import overflow_note, overflow_of_runs
from .panel import Panel

if TYPE_CHECKING:
    from ..lab import Run

WITHIN = 0.05
"""What is as near as this, agrees: a difference that changes no conclusion about who generalises."""
LEARNED = 0.95
"""A model below this at its training lengths has not learned the task, so its failure beyond them proves nothing."""


@dataclass(frozen=True)
class Published:
    mean: float
    max: float | None = None

    @property
    def words(self) -> str:
        return f"{100 * self.mean:.1f}" if self.max is None else f"{100 * self.max:.1f} / {100 * self.mean:.1f}"


@dataclass(frozen=True)
class Cell:
    scores: tuple[float, ...]
    """One a seed: beyond the training lengths, at the last checkpoint."""
    published: Published
    majority: float
    """The accuracy of the best constant answer at the same lengths."""
    best: tuple[float, ...] = ()
    """The same scores at the checkpoint of the best validation."""
    rates: tuple[float, ...] = ()
    """Scores of every learning rate and seed, where there are several rates; `scores` are then of the best rate."""
    inside: float | None = None
    """Mean accuracy at the training lengths."""
    overflow: str = ""
    """Where logits overflowed and so were wrong, in words (`overflow_text`)."""

    @classmethod
    def of(cls, runs: Sequence[Run], published: Published) -> Cell:
        """The cell of one model's runs, which may differ in seed and learning rate."""
        chosen, high = best_rate(runs), runs[0].experiment.training.curriculum.lengths[1]
        lengths = sorted(set(runs[0].experiment.evaluation.lengths))
        beyond, inside = [n for n in lengths if n > high], [n for n in lengths if n <= high]

        def scores(of: Sequence[Run], checkpoint: Checkpoint = "last") -> tuple[float, ...]:
            return tuple(score(run, beyond, checkpoint) for run in of)

        return cls(
            scores=scores(chosen),
            published=published,
            majority=statistics.fmean(runs[0].result["baseline"][str(n)] for n in beyond),
            best=scores(chosen, "best"),
            rates=scores(runs) if len(chosen) < len(runs) else (),
            inside=statistics.fmean(score(run, inside) for run in chosen) if inside else None,
            overflow=overflow_of_runs(chosen),
        )

    def agrees(self, published_majority: float) -> bool:
        p = self.published.mean if self.published.max is None else self.published.max
        m = statistics.fmean(self.scores) if self.published.max is None else max(self.scores)
        return _near(abs(m - p)) or (_near(m - self.majority) and _near(p - published_majority))

    @property
    def learned(self) -> bool:
        return self.inside is None or self.inside >= LEARNED


@dataclass(frozen=True)
class Row:
    label: str
    majority: float
    cells: Mapping[str, Cell]
    """By column; a model without runs has none."""
    published_majority: float | None = None
    """Where the published strings had another one."""

    def agrees(self, column: str) -> bool:
        other = self.majority if self.published_majority is None else self.published_majority
        return self.cells[column].agrees(other)


def _near(difference: float) -> bool:
    return round(difference, 9) <= WITHIN


def best_rate(runs: Sequence[Run]) -> list[Run]:
    """The runs of the learning rate that did best on validation strings; test strings choose nothing."""
    rates: dict[float, list[Run]] = {}
    for run in runs:
        rates.setdefault(run.experiment.training.optimizer.lr, []).append(run)
    return max(rates.values(), key=_validated)


def _validated(runs: Sequence[Run]) -> tuple[float, float]:
    found = [run.result["checkpoints"]["best"]["validation"] for run in runs]
    return statistics.fmean(v["accuracy"] for v in found), -statistics.fmean(v["loss"] for v in found)


def comparison(title: str, rows: Sequence[Row], columns: Sequence[str], note: str = "") -> Panel:
    """The panel; `columns` name the cells of every row, `note` is added to the caption."""
    columns = [column for column in columns if any(column in row.cells for row in rows)]
    return Panel(title, f"{_caption(rows)} {note}".strip(), _body(rows, columns), _text(rows, columns), _data(rows))


def finding(rows: Sequence[Row]) -> str:
    """How many cells agree with the paper, and which do not."""
    count = sum(len(row.cells) for row in rows)
    differ = {row.label: [column for column in row.cells if not row.agrees(column)] for row in rows}
    said = f"{count - sum(map(len, differ.values()))} of {count} cells agree."
    if named := [f"{label} ({', '.join(columns)})" for label, columns in differ.items() if columns]:
        said += f" Not: {'; '.join(named)}."
    if unlearned := sum(not cell.learned for row in rows for cell in row.cells.values()):
        said += f" In {unlearned} of {count} the model has not learned the task even at its training lengths."
    return said


def _caption(rows: Sequence[Row]) -> str:
    cells = [cell for row in rows for cell in row.cells.values()]
    seeds = sorted({len(cell.scores) for cell in cells})
    maxima = any(cell.published.max is not None for cell in cells)
    said = (
        "Accuracy in %: maximum / mean ± standard deviation over "
        f"{' or '.join(map(str, seeds))} {'seed' if seeds == [1] else 'seeds'} at the last checkpoint, "
        f"below it {'max / mean' if maxima else 'the mean'} as published. A cell agrees when the two "
        f"{'maxima' if maxima else 'means'} are within {100 * WITHIN:.0f} points of each other, or both no more than "
        f"{100 * WITHIN:.0f} points above the majority answer."
    )
    if maxima:
        said += " Means are not judged: they depend on what is averaged."
    if any(cell.inside is not None for cell in cells):
        said += (
            " In training: the mean accuracy at the training lengths; below "
            f"{100 * LEARNED:.0f} the task was not learned, and a failure beyond it proves nothing."
        )
    if any(cell.rates for cell in cells):
        said += " The learning rate was chosen by validation; all rates: every rate and seed."
    wrong = overflow_note({f"{row.label}, {name}": cell.overflow for row in rows for name, cell in row.cells.items()})
    return f"{said} {wrong}".strip()


def summed(scores: Sequence[float]) -> str:
    """`100.0 / 98.3±1.2`: max / mean ± sample deviation, or the one score there is."""
    if len(scores) == 1:
        return percent(scores[0])
    return f"{percent(max(scores))} / {percent(statistics.fmean(scores))}±{100 * statistics.stdev(scores):.1f}"


def _lines(row: Row, column: str) -> dict[str, str]:
    """What stands in a cell, line by line."""
    cell = row.cells[column]
    lines = {"measured": summed(cell.scores)}
    if cell.rates:
        lines["all rates"] = summed(cell.rates)
    lines["published"] = cell.published.words
    if cell.inside is not None:
        lines["in training"] = percent(cell.inside) + ("" if cell.learned else ", unlearned")
    return lines | {"verdict": "agrees" if row.agrees(column) else "differs"}


def _text(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """For a terminal of 100 columns."""
    heads = ("  in training", "  majority 100.0", *(row.label for row in rows))
    first = max(map(len, heads)) + 2
    lines = [" " * first + _spaced(columns)]
    for row in rows:
        cells = {column: _lines(row, column) for column in row.cells}
        keys = dict.fromkeys(key for cell in cells.values() for key in cell)
        for key in keys:
            head = {"measured": row.label, "verdict": f"  majority {percent(row.majority)}"}.get(key, f"  {key}")
            lines.append(head.ljust(first) + _spaced([cells.get(column, {}).get(key, "") for column in columns]))
    return "\n".join([*map(str.rstrip, lines), finding(rows)])


def _spaced(words: Sequence[str]) -> str:
    return "".join(word.ljust(19) for word in words)


def _body(rows: Sequence[Row], columns: Sequence[str]) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(
        f'<tr><th scope="row">{escape(row.label)}<small>majority answer {percent(row.majority)}</small></th>'
        f"{''.join(_cell(row, column, i) for i, column in enumerate(columns))}</tr>"
        for row in rows
    )
    return (
        f'<p class="finding">{escape(finding(rows))}</p>'
        '<div class="box" tabindex="0" role="region" aria-label="Measured beside published"><table class="stack">'
        f'<thead><tr><th scope="col">in %, beyond training</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(row: Row, column: str, i: int) -> str:
    label = f'data-column="{escape(column, quote=True)}"'
    if column not in row.cells:
        return f"<td {label}>–</td>"
    cell, lines = row.cells[column], _lines(row, column)
    agrees = lines.pop("verdict") == "agrees"
    small = "".join(f"<span>{key} {escape(text)}</span><br>" for key, text in list(lines.items())[1:])
    return (
        f"<td {label}><b>{lines['measured']}</b>"
        '<span class="bar" aria-hidden="true">'
        f'<i style="width:{100 * statistics.fmean(cell.scores):.1f}%;background:var(--s{i % 8})"></i>'
        f'<u style="left:{100 * cell.majority:.1f}%"></u></span>'
        f'<small>{small}</small><span class="verdict {"" if agrees else "off"}">{"✓ agrees" if agrees else "≠ differs"}'
        "</span></td>"
    )


def _data(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {
            "row": row.label,
            "majority": row.majority,
            "published_majority": row.majority if row.published_majority is None else row.published_majority,
            "cells": {
                column: {
                    "measured": _numbers(cell.scores),
                    "best_validation": _numbers(cell.best),
                    "all_rates": _numbers(cell.rates),
                    "training_lengths": cell.inside,
                    "overflow": cell.overflow,
                    "published": {"max": cell.published.max, "mean": cell.published.mean},
                    "agrees": row.agrees(column),
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
