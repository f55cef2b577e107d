"""A section as a panel: accuracy against length as a chart and a table, the verdicts, and the curves of training.

A line of the chart is the mean of the seeds, its band the least to the greatest of them. A row of the table is a model,
a column a range of lengths.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from ..lab.records import Run
from ..lab.statistics import Range, score, summary
from .formatting import count, duration, interval, percent, spread
from .overflow import overflow_note_of_runs
from .panel import Chart, Panel, Table, TableCell
from .sections import Section, SeedGroup
from .verdicts import extracted_of_section, verdict_panels

BASELINE = "majority answer"
LOG_FROM = 20
"""The length axis is logarithmic when the longest test is this many times the longest training length or more."""
POINTS = 80
"""A learning curve is averaged down to at most so many points, and to fewer on a page of many runs."""
MARKED = 40
"""Every length is a point of its own up to so many lengths."""
PARTS = 50
"""Where there are more, the length axis is cut into so many parts, a point each."""


def section_panel(section: Section, *, curve_points: int = 0) -> Chart:
    """Returns what was measured on one question: accuracy by length, the verdicts, the table.

    With `curve_points`, of which a learning curve then has at most so many, how the models learned and what was
    extracted from them, too.
    """
    points, base = lengths_by_point(section), section.baseline
    xs = [statistics.fmean(part) for part in points]
    lines = {group.label: band(group, points) for group in section.groups}
    constant = [statistics.fmean(base[n] for n in part) for part in points]
    together = "" if len(xs) == len(section.lengths) else " Where points stand close, each is the mean of neighbours."
    seeds = "the mean of the seeds, its band from the least to the greatest" if section.seeds > 1 else "one seed"
    verdicts = verdict_panels(section)
    more = [*extracted_of_section(section), *learning_curves(section, curve_points)] if curve_points else []
    return Chart(
        section.name,
        f"A line is {seeds}. Shaded: what was trained on. The 95% intervals stand in the table.{together}",
        f"length in {section.unit}",
        "accuracy at the last checkpoint",
        {**{label: (xs, middle) for label, (_, middle, _) in lines.items()}, BASELINE: (xs, constant)},
        log_x=has_log_axis(section),
        percent=True,
        # An interval of few strings is the widest where all were right: no band for the eye, but words at each point.
        bands={label: (low, high) for label, (low, _, high) in lines.items() if section.seeds > 1},
        base=BASELINE,
        shaded=section.train,
        styles={group.label: group.style for group in section.groups},
        hints={group.label: _hints(group, lines[group.label]) for group in section.groups},
        lead="\n".join(_sentences(section)),
        below=(*verdicts[:1], _table(section), *verdicts[1:], *more),
    )


def _hints(group: SeedGroup, line: tuple[list[float], list[float], list[float]]) -> list[str]:
    what = "seeds" if len(group.runs) > 1 else "95%"
    return [f"{what} {percent(low)}–{percent(high)}" * (low < high) for low, _, high in zip(*line, strict=True)]


def _sentences(section: Section) -> list[str]:
    """How it was trained and tested, how far each model holds, and where logits overflowed."""
    beyond = [r for r in section.ranges if r.beyond]
    # The first lengths beyond training and the farthest: to hold at the one proves nothing about the other.
    far = [_at(section, r) for r in dict.fromkeys([*beyond[:1], *beyond[-1:]])]
    overflow = overflow_note_of_runs({group.label: group.runs for group in section.groups})
    return [
        f"{section.subtitle[:1].upper()}{section.subtitle[1:]}.",
        *(far or ["No length beyond the training range was tested."]),
        *([overflow] if overflow else []),
    ]


def _at(section: Section, r: Range) -> str:
    scores = {group.label: summary(group.runs, r.lengths) for group in section.groups}
    order = sorted(scores, key=lambda label: -scores[label].mean)
    base = percent(scores[order[0]].baseline)
    named = ", ".join(f"{label} {percent(scores[label].mean)}%" for label in order)
    at = section.span(r.lengths[0], r.lengths[-1])
    return f"At {at}: {named}. The majority answer would score {base}%."


def majority_row(section: Section) -> list[str]:
    """What always giving the commonest answer scores, as the last row of a table."""
    return [BASELINE, *(percent(statistics.fmean(section.baseline[n] for n in r.lengths)) for r in section.ranges)]


def _table(section: Section) -> Table:
    return Table(
        section.name,
        "",
        ["accuracy, %", *(r.label for r in section.ranges)],
        [*(_row(group, section) for group in section.groups), majority_row(section)],
        keys=[group.style for group in section.groups],
        base=True,
        shaded={r.label: "trained on" for r in section.ranges if r.trained},
    )


def _row(group: SeedGroup, section: Section) -> list[TableCell]:
    seconds = duration(statistics.fmean(run.result["seconds"]["train"] for run in group.runs))
    seeds = f"{len(group.runs)} seeds" if len(group.runs) > 1 else f"seed {group.first.experiment.seed}"
    about = [f"{count(group.first.result['parameters'])} parameters", f"{seeds}, {seconds} of training"]
    head = TableCell(group.label, tuple(("", text) for text in [*about, group.note] if text))
    return [head, *(_cell(group, r) for r in section.ranges)]


def _cell(group: SeedGroup, r: Range) -> TableCell:
    last, best = summary(group.runs, r.lengths), summary(group.runs, r.lengths, "best")
    notes = [("max", percent(last.max))] if last.std is not None else []
    notes += [("95%", interval(last)), ("best valid.", spread(best))]
    return TableCell(spread(last), tuple(notes), bar=(last.mean, last.baseline))


def lengths_by_point(section: Section) -> list[tuple[int, ...]]:
    """The lengths drawn as one point each: every length alone where there are few, else neighbours together.

    With a few dozen strings at each of hundreds of lengths a curve would be all noise. The axis is cut into equal
    parts, at the end of the training range too, and the lengths in one part are averaged.
    """
    lengths = section.lengths
    if len(lengths) <= MARKED:
        return [(n,) for n in lengths]
    scale = math.log if has_log_axis(section) else float
    first, last = scale(lengths[0]), scale(lengths[-1])
    parts: dict[tuple[bool, int], list[int]] = {}
    for n in lengths:
        part = int(PARTS * (scale(n) - first) / (last - first))
        parts.setdefault((n > section.train[1], part), []).append(n)
    return [tuple(parts[key]) for key in sorted(parts)]


def has_log_axis(section: Section) -> bool:
    """Whether the length axis is logarithmic."""
    return section.lengths[-1] >= LOG_FROM * section.train[1]


def band(group: SeedGroup, points: Sequence[Sequence[int]]) -> tuple[list[float], list[float], list[float]]:
    """Low, middle and high by point: least, mean and greatest of the seeds, or of one seed its Wilson interval."""
    summaries = [summary(group.runs, lengths) for lengths in points]
    if len(group.runs) > 1:
        seeds = [[score(run, lengths) for run in group.runs] for lengths in points]
        return [min(s) for s in seeds], [s.mean for s in summaries], [max(s) for s in seeds]
    return [s.low for s in summaries], [s.mean for s in summaries], [s.high for s in summaries]


def learning_curves(section: Section, points: int = POINTS) -> list[Panel]:
    """Returns a panel of training loss and validation accuracy by step, a line a seed; none where none was recorded."""
    title = f"{section.title}: learning curves"
    charts = [
        Chart(title, "", "step", name, series, log_y=kind == "train", percent=kind == "validation", half=True)
        for kind, value, name in (
            ("train", "loss", "training loss"),
            ("validation", "accuracy", "validation accuracy, training lengths"),
        )
        if (series := _curves(section, kind, value, points))
    ]
    charts = [replace(chart, styles={group.label: group.style for group in section.groups}) for chart in charts]
    caption = f"One line a seed, averaged down to at most {points} points."
    return [Panel(title, caption, below=tuple(charts), folded=True)] if charts else []


def _curves(section: Section, kind: str, value: str, points: int) -> dict[str, tuple[list[float], list[float | None]]]:
    """The curves of a model's seeds as one line, with a gap between two seeds."""
    series = {}
    for group in section.groups:
        xs: list[float] = []
        ys: list[float | None] = []
        for steps, values in filter(all, (curve(run, kind, value, points) for run in group.runs)):
            xs += [*([steps[0]] if xs else []), *steps]
            ys += [*([None] if ys else []), *values]
        if xs:
            series[group.label] = xs, ys
    return series


def curve(run: Run, kind: str, value: str, most: int = POINTS) -> tuple[list[float], list[float]]:
    """Steps and values of one line of the metrics, averaged in equal bins where there are many."""
    points = [(line["step"], line[value]) for line in run.metrics if line.get("kind") == kind and value in line]
    size = -(-len(points) // most) if points else 1
    bins = [points[i : i + size] for i in range(0, len(points), size)]
    return [statistics.fmean(s for s, _ in b) for b in bins], [statistics.fmean(v for _, v in b) for b in bins]
