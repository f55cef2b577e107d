"""Charts of plain numbers as panels: lines, and dots in a plane.

line_chart("Time", "Lower is better.", "tokens", "s", {"dense": (T, a), "sparse": (T, b)}, log_x=True, log_y=True)
scatter_plot("Two kinds", "One dot a node.", "first axis", "second axis", {"even": points, "odd": others})

They are inline SVG, drawn wide and narrow as the page's own figures are.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from html import escape

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from ..errors import ShapeError
from .chart_parts import dot_key, line_key, mark_place, responsive_figure, scale_axes
from .formatting import in_columns, table_number
from .panel import Panel
from .svg import COLOURS, Style

SHOWN = 16
"""Lines in the terminal are a table of at most so many rows."""
MARKED = 40
"""Every point of a line has its marker, up to so many points."""
NAMED = 12
"""Groups of dots have their name beside them, up to so many groups."""

Line = tuple[Sequence[float], Sequence[float]]
Point = Sequence[float]


def line_chart(
    title: str,
    caption: str,
    x_label: str,
    y_label: str,
    series: Mapping[str, Line],
    *,
    log_x: bool = False,
    log_y: bool = False,
    percent: bool = False,
    marks: Mapping[str, float] | None = None,
) -> Panel:
    """A line for each name in `series`, which holds (xs, ys); a NaN or infinite y leaves a gap.

    `percent`: the ys are shares, written in percent, on an axis from 0 to 100. `marks`: named places on the x axis.

    >>> series = {"dense": ([8, 16], [1, 4]), "sparse": ([8, 16], [1, 2])}
    >>> print(line_chart("Cost", "", "tokens", "seconds", series).text)
    tokens  dense  sparse
         8      1       1
        16      4       2
    """
    for name, (xs, ys) in series.items():
        if len(xs) != len(ys) or not len(xs):
            raise ShapeError(
                f"line_chart: {name!r} needs as many ys as xs, at least one, got {len(xs)} xs, {len(ys)} ys."
            )
    plain = {name: ([float(x) for x in xs], [_finite(y) for y in ys]) for name, (xs, ys) in series.items()}
    places = {name: float(x) for name, x in (marks or {}).items()}

    def plot(axes: Axes, narrow: bool) -> None:
        for i, (xs, ys) in enumerate(plain.values()):
            style = Style.of(i)
            axes.plot(
                xs,
                [math.nan if y is None else y for y in ys],
                color=style.colour,
                linestyle=style.dash,
                linewidth=max(1.6, 2.8 - 0.3 * i),
                marker=style.marker if len(xs) <= MARKED else None,
                markersize=6,
                markeredgecolor=COLOURS["surface"],
                markeredgewidth=0.8,
                clip_on=False,
                zorder=3 + i / 100,
            )
        scale_axes(axes, log_x, log_y, percent, narrow)
        for i, (name, x) in enumerate(places.items()):
            mark_place(axes, name, x, i)

    data = {
        "x": x_label,
        "y": y_label,
        "series": {name: {"x": xs, "y": ys} for name, (xs, ys) in plain.items()},
        "marks": places,
    }
    ends = "; ".join(f"{name} ends at {table_number(ys[-1], percent)}" for name, (_, ys) in plain.items())
    # The lines are named in the order in which they end, from the top.
    last = [next((y for y in reversed(ys) if y is not None), -math.inf) for _, ys in plain.values()]
    names = [line_key(Style.of(i)) + escape(name) for i, name in enumerate(plain)]
    legend = [names[i] for i in sorted(range(len(names)), key=lambda i: -last[i])]
    body = responsive_figure(title, f"{y_label} against {x_label}: {ends}.", data, plot, (x_label, y_label), legend)
    named = [f"{name}: {x_label} {table_number(x)}" for name, x in places.items()]
    return Panel(title, caption, body, "\n".join([_table(x_label, plain, percent), *named]), data)


def scatter_plot(title: str, caption: str, x_label: str, y_label: str, groups: Mapping[str, Sequence[Point]]) -> Panel:
    """A dot for each (x, y) of each named group, on axes of one scale, each group in its colour and with its name.

    >>> print(scatter_plot("Two kinds", "", "first", "second", {"even": [(0, 0), (0, 1)], "odd": [(9, 9)]}).text)
          dots  centre
    even     2  (0, 0.5)
    odd      1  (9, 9)
    """
    plain = {name: [(float(x), float(y)) for x, y in points] for name, points in groups.items() if len(points)}
    if not plain:
        raise ShapeError("scatter_plot: needs at least one point, got none.")
    centres = {
        name: tuple(statistics.median(axis) for axis in zip(*points, strict=True)) for name, points in plain.items()
    }

    def plot(axes: Axes, narrow: bool) -> None:
        for i, points in enumerate(plain.values()):
            axes.add_patch(_dots(points, Style.of(i).colour))
        axes.autoscale_view()
        # A distance is the same along both axes; whichever has room to spare shows more.
        axes.set_aspect("equal", adjustable="datalim")
        axes.margins(0.08)
        scale_axes(axes, False, False, False, narrow)
        for i, (name, points) in enumerate(plain.items() if len(plain) <= NAMED else ()):
            box = {"boxstyle": "round,pad=0.25", "facecolor": COLOURS["surface"], "edgecolor": Style.of(i).colour}
            # A name stands above all but a few of its dots, since it hides those it stands on.
            top = sorted(y for _, y in points)[int(0.97 * (len(points) - 1))]
            at = (centres[name][0], top)
            axes.annotate(name, at, (0, 8), textcoords="offset points", ha="center", va="bottom", bbox=box)

    data = {"x": x_label, "y": y_label, "groups": {name: [list(p) for p in points] for name, points in plain.items()}}
    rows = [[name, f"{len(plain[name]):,}", "({}, {})".format(*map(table_number, centres[name]))] for name in plain]
    legend = [
        f"{dot_key(Style.of(i))}{escape(name)} <small>({count} dots)</small>" for i, (name, count, _) in enumerate(rows)
    ]
    words = "; ".join(f"{name}: {count} dots about {centre}" for name, count, centre in rows)
    body = responsive_figure(title, words + ".", data, plot, (x_label, y_label), legend, height=520)
    return Panel(title, caption, body, in_columns(["", "dots", "centre"], rows, "<><"), data)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _dots(points: Sequence[Point], colour: str) -> PathPatch:
    """All dots as one path of lines without length, whose round ends are the dots: a tenth of the page's size."""
    vertices = [point for point in points for _ in range(2)]
    path = Path(vertices, [Path.MOVETO, Path.LINETO] * len(points))
    path.should_simplify = False  # which would leave out lines that have no length
    return PathPatch(path, fill=False, edgecolor=colour, linewidth=4.5, capstyle="round", alpha=0.75, zorder=2)


def _table(x_label: str, series: Mapping[str, tuple[list[float], list[float | None]]], percent: bool) -> str:
    """The xs and, under each name, the ys; where there are many xs, some of them, first and last included."""
    every = sorted({x for xs, _ in series.values() for x in xs})
    if len(every) > SHOWN:
        every = [every[round(i * (len(every) - 1) / (SHOWN - 1))] for i in range(SHOWN)]
    columns = [dict(zip(xs, ys, strict=True)) for xs, ys in series.values()]
    rows = [[table_number(x), *(table_number(ys.get(x), percent) for ys in columns)] for x in every]
    return in_columns([x_label, *series], rows, ">" * (1 + len(series)))
