"""Drawings of plain numbers as panels: lines, dots in a plane, a map of shaded cells.

lines("Time", "Lower is better.", "tokens", "seconds", {"dense": (T, a), "sparse": (T, b)}, log_x=True, log_y=True)
scatter("Two kinds", "One dot a node.", "first axis", "second axis", {"even": points, "odd": others})
heat_map("Chunk sizes", "Accuracy at 500.", ["C=2", "C=3"], ["parity", "cycle"], [[1, 1], [1, 0.9]], percent=True)

Lines and dots are inline SVG, drawn wide and narrow as the page's own figures are; a map is a table, so that its
numbers can be read, copied and scrolled.
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
from .drawing import dot_key, figure, line_key, mark, scale, written
from .panel import Panel
from .svg import COLOURS, Style

SHOWN = 16
"""Lines in the terminal are a table of at most so many rows."""
MARKED = 40
"""Every point of a line has its marker, up to so many points."""
DEEPEST = 50
"""Percent of colour in a map's highest cell: with more, the number in it no longer stands out."""
NAMED = 12
"""Groups of dots have their name beside them, up to so many groups."""

Line = tuple[Sequence[float], Sequence[float]]
Point = Sequence[float]


def lines(
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

    >>> print(lines("Cost", "", "tokens", "seconds", {"dense": ([8, 16], [1, 4]), "sparse": ([8, 16], [1, 2])}).text)
    tokens  dense  sparse
         8      1       1
        16      4       2
    """
    for name, (xs, ys) in series.items():
        if len(xs) != len(ys) or not len(xs):
            raise ShapeError(f"lines: {name!r} needs as many ys as xs, at least one, got {len(xs)} xs, {len(ys)} ys.")
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
        scale(axes, log_x, log_y, percent, narrow)
        for i, (name, x) in enumerate(places.items()):
            mark(axes, name, x, i)

    data = {
        "x": x_label,
        "y": y_label,
        "series": {name: {"x": xs, "y": ys} for name, (xs, ys) in plain.items()},
        "marks": places,
    }
    ends = "; ".join(f"{name} ends at {written(ys[-1], percent)}" for name, (_, ys) in plain.items())
    legend = [line_key(Style.of(i)) + escape(name) for i, name in enumerate(plain)]
    body = figure(title, f"{y_label} against {x_label}: {ends}.", data, plot, (x_label, y_label), legend)
    named = [f"{name}: {x_label} {written(x)}" for name, x in places.items()]
    return Panel(title, caption, body, "\n".join([_table(x_label, plain, percent), *named]), data)


def scatter(title: str, caption: str, x_label: str, y_label: str, groups: Mapping[str, Sequence[Point]]) -> Panel:
    """A dot for each (x, y) of each named group, on axes of one scale, each group in its colour and with its name.

    >>> print(scatter("Two kinds", "", "first", "second", {"even": [(0, 0), (0, 1)], "odd": [(9, 9)]}).text)
          dots  centre
    even     2  (0, 0.5)
    odd      1  (9, 9)
    """
    plain = {name: [(float(x), float(y)) for x, y in points] for name, points in groups.items() if len(points)}
    if not plain:
        raise ShapeError("scatter: needs at least one point, got none.")
    centres = {
        name: tuple(statistics.median(axis) for axis in zip(*found, strict=True)) for name, found in plain.items()
    }

    def plot(axes: Axes, narrow: bool) -> None:
        for i, points in enumerate(plain.values()):
            axes.add_patch(_dots(points, Style.of(i).colour))
        axes.autoscale_view()
        # Whatever the axes show more of, a distance is the same along both.
        axes.set_aspect("equal", adjustable="datalim")
        axes.margins(0.08)
        scale(axes, False, False, False, narrow)
        for i, (name, points) in enumerate(plain.items() if len(plain) <= NAMED else ()):
            box = {"boxstyle": "round,pad=0.25", "facecolor": COLOURS["surface"], "edgecolor": Style.of(i).colour}
            # Above all but a few of its dots, for it would hide those it stood on.
            top = sorted(y for _, y in points)[int(0.97 * (len(points) - 1))]
            at = (centres[name][0], top)
            axes.annotate(name, at, (0, 8), textcoords="offset points", ha="center", va="bottom", bbox=box)

    data = {"x": x_label, "y": y_label, "groups": {name: [list(p) for p in points] for name, points in plain.items()}}
    rows = [[name, f"{len(plain[name]):,}", "({}, {})".format(*map(written, centres[name]))] for name in plain]
    legend = [
        f"{dot_key(Style.of(i))}{escape(name)} <small>({count} dots)</small>" for i, (name, count, _) in enumerate(rows)
    ]
    words = "; ".join(f"{name}: {count} dots about {centre}" for name, count, centre in rows)
    body = figure(title, words + ".", data, plot, (x_label, y_label), legend, height=520)
    return Panel(title, caption, body, _columns(["", "dots", "centre"], rows, "<><"), data)


def heat_map(
    title: str,
    caption: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    corner: str = "",
    low: float | None = None,
    high: float | None = None,
    percent: bool = False,
) -> Panel:
    """A cell for each row and column, the deeper shaded the higher its value; None or NaN: an empty cell.

    `corner` says what the rows are. `low` and `high` are the values of no and of full shade (default: the least and the
    greatest there are). `percent`: the values are shares, written in percent.

    >>> print(heat_map("", "", ["C=2", "C=3"], ["parity", "cycle"], [[1, 1], [0.5, None]], percent=True).text)
         parity  cycle
    C=2   100.0  100.0
    C=3    50.0      –
    """
    if len(values) != len(rows) or any(len(row) != len(columns) for row in values):
        shape = [len(values), sorted({len(row) for row in values})]
        raise ShapeError(f"heat_map: needs {len(rows)} rows of {len(columns)} values, got {shape[0]} of {shape[1]}.")
    plain = [[_finite(v) for v in row] for row in values]
    there = [v for row in plain for v in row if v is not None] or [0.0]
    least, most = (min(there) if low is None else low), (max(there) if high is None else high)
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    made = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(_cell(v, least, most, percent) for v in row)}</tr>'
        for name, row in zip(rows, plain, strict=True)
    )
    body = (
        f'<div class="box" tabindex="0" role="region" aria-label="{escape(title)}"><table class="small">'
        f'<thead><tr><th scope="col">{escape(corner)}</th>{head}</tr></thead><tbody>{made}</tbody></table></div>'
    )
    cells = [[name, *(written(v, percent) for v in row)] for name, row in zip(rows, plain, strict=True)]
    data = {"rows": list(rows), "columns": list(columns), "values": plain}
    return Panel(title, caption, body, _columns([corner, *columns], cells, "<" + ">" * len(columns)), data)


def _cell(value: float | None, low: float, high: float, percent: bool) -> str:
    if value is None:
        return "<td>–</td>"
    share = min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0
    colour = f"color-mix(in srgb, var(--s0) {DEEPEST * share:.0f}%, var(--card))"
    return f'<td style="background:{colour}">{written(value, percent)}</td>'


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
    found = [dict(zip(xs, ys, strict=True)) for xs, ys in series.values()]
    rows = [[written(x), *(written(ys.get(x), percent) for ys in found)] for x in every]
    return _columns([x_label, *series], rows, ">" * (1 + len(series)))


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True)).rstrip()
        for row in (head, *rows)
    )
