"""The two charts of a section: accuracy against length, and learning curves.

Each is drawn twice, wide and narrow, and the page shows the one that fits: text keeps its size on a telephone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from ..lab.statistics import score, summary
from .sections import Section, SeedGroup
from .svg import COLOURS, Style, canvas, draw, draw_line, render

if TYPE_CHECKING:
    from ..lab import Run

WIDE, NARROW = (860, 400), (350, 300)
LOG_FROM = 20
"""The length axis is logarithmic when the longest test is this many times the longest training length or more."""
POINTS = 80
"""A learning curve is averaged down to at most so many points."""
MARKED = 40
"""Every length is a point of its own, and has its marker, up to so many lengths."""
PARTS = 50
"""Where there are more, the length axis is cut into so many parts, a point each."""


def accuracy_chart(section: Section, name: str, *, narrow: bool = False) -> str:
    """SVG: accuracy at the last checkpoint by length, the training range shaded, the majority baseline dashed."""
    return draw(_accuracy, section, name, NARROW if narrow else WIDE)


def learning_chart(section: Section, name: str, *, narrow: bool = False) -> str:
    """SVG: training loss and validation accuracy by step, a line per seed."""
    return draw(_learning, section, name, (NARROW[0], 480) if narrow else (WIDE[0], 300), narrow)


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


def _accuracy(section: Section, name: str, size: tuple[float, float]) -> str:
    figure = canvas(*size)
    axes = figure.add_subplot()
    points, base = lengths_by_point(section), section.baseline
    lengths = [statistics.fmean(part) for part in points]
    constant = [statistics.fmean(base[n] for n in part) for part in points]
    axes.axvspan(*_shaded(section), color=COLOURS["shade"], linewidth=0, zorder=0)
    axes.plot(lengths, constant, color=COLOURS["muted"], linestyle=(0, (4, 4)), linewidth=1.4)
    least = min(constant)
    for i, group in enumerate(section.groups):
        low, middle, high = band(group, points)
        least = min(least, *low)
        axes.fill_between(lengths, low, high, color=Style.of(i).colour, alpha=0.16, linewidth=0)
        # A marker at every point of a few, else at every tenth of the figure, elsewhere for each model.
        marked = None if len(lengths) <= MARKED else (0.1 * i / len(section.groups), 0.1)
        # Later lines are thinner, so that all of several lines that coincide (at 100%) can be seen.
        draw_line(axes, i, lengths, middle, 3.4 - 0.5 * i, markevery=marked)
    axes.set_ylim(max(0.0, min(0.9, int((least - 0.02) * 10) / 10)), 1.0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda a, _: f"{100 * a:.0f}%"))
    axes.set_title("Accuracy at the last checkpoint")
    axes.set_xlabel(f"length in {section.unit}")
    _length_axis(axes, section, size[0])
    return render(figure, name, f"{section.title}: accuracy against length", describe(section))


def _shaded(section: Section) -> tuple[float, float]:
    low, high = section.train
    return (low, high) if low < high else (low * 0.97, high * 1.03)


def _length_axis(axes: Axes, section: Section, width: float) -> None:
    first = min(section.lengths[0], section.train[0])
    high, last = section.train[1], section.lengths[-1]
    if has_log_axis(section):
        axes.set_xscale("log")
        ticks = [n for power in range(7) for n in (10**power,) if first <= n <= last]
        # A reader looks for the training length and the longest test; round numbers give way to them.
        ticks = [n for n in ticks if all(not 0.5 < n / own < 2 for own in (high, last))] + [high, last]
        axes.xaxis.set_major_locator(FixedLocator(sorted(ticks)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlim(first, last)
    else:
        axes.set_xlim(min(first, _shaded(section)[0]), last)
        ticks = [n for n in MaxNLocator(4 if width < 500 else 8).tick_values(first, last) if first <= n <= last]
        ticks = [n for n in ticks if abs(n - high) > 0.08 * (last - first)] + [high]
        axes.xaxis.set_major_locator(FixedLocator(sorted(ticks)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))


def describe(section: Section) -> str:
    """The figure in a sentence, for those who do not see it."""
    low, _, high = zip(*(band(group, [section.lengths[-1:]]) for group in section.groups), strict=True)
    ends = [
        f"{group.label} is between {100 * low[i][-1]:.0f} and {100 * high[i][-1]:.0f} percent"
        for i, group in enumerate(section.groups)
    ]
    where = f"At {section.lengths[-1]:,} {section.unit}"
    return f"Trained on {section.train[0]} to {section.train[1]} {section.unit}. {where}, " + (
        "; ".join(ends)
        + f"; the majority answer is right in {100 * section.baseline[section.lengths[-1]]:.0f} percent."
    )


def curve(run: Run, kind: str, value: str) -> tuple[list[float], list[float]]:
    """Steps and values of one line of the metrics, averaged in equal bins where there are many."""
    points = [(line["step"], line[value]) for line in run.metrics if line.get("kind") == kind and value in line]
    size = -(-len(points) // POINTS) if points else 1
    bins = [points[i : i + size] for i in range(0, len(points), size)]
    return [statistics.fmean(s for s, _ in b) for b in bins], [statistics.fmean(v for _, v in b) for b in bins]


def _learning(section: Section, name: str, size: tuple[float, float], narrow: bool) -> str:
    figure = canvas(*size)
    loss, valid = figure.subplots(2, 1) if narrow else figure.subplots(1, 2)
    panels = [(loss, "train", "loss"), (valid, "validation", "accuracy")]
    for i, group in enumerate(section.groups):
        style = Style.of(i)
        for axes, kind, value in panels:
            for run in group.runs:
                axes.plot(
                    *curve(run, kind, value), color=style.colour, linestyle=style.dash, linewidth=1.6, clip_on=False
                )
    loss.set_title("Training loss")
    loss.set_yscale("log")
    loss.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    low, high = loss.get_ylim()
    loss.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,), numticks=8))
    loss.yaxis.set_minor_locator(NullLocator())
    valid.set_title("Validation accuracy, training lengths")
    valid.set_ylim(None, 1.0)
    valid.yaxis.set_major_formatter(FuncFormatter(lambda a, _: f"{100 * a:.0f}%"))
    for axes, _, _ in panels:
        if not any(len(line.get_xdata()) for line in axes.lines):
            _say_none_recorded(axes)
            continue
        axes.set_xlabel("step")
        axes.set_xlim(0, None)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
    text = f"Training loss and validation accuracy against the training step, {section.seeds} seeds a model."
    return render(figure, name, f"{section.title}: learning curves", text)


def _say_none_recorded(axes: Axes) -> None:
    """Words in place of a scale, where the runs recorded nothing to draw."""
    axes.xaxis.set_visible(False)
    axes.yaxis.set_visible(False)
    axes.text(0.5, 0.5, "none recorded", transform=axes.transAxes, ha="center", va="center", color=COLOURS["muted"])
