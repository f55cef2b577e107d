"""Findings as plain data: tables, charts, arcs over a sentence, machines. `drawing.py` alone renders them.

Table("Clusters", "How many.", ["task", "clusters"], [["parity", "2"], ["cycle", "5"]], data={"parity": 2})
heat_map("Accuracy", "At 500.", ["C=2", "C=3"], ["parity", "cycle"], [[1, 1], [1, 0.9]], percent=True)
line_chart("Time", "Lower is better.", "tokens", "s", {"dense": (T, a), "sparse": (T, b)}, log_x=True, log_y=True)
scatter_plot("Two kinds", "One dot a node.", "first axis", "second axis", {"even": points, "odd": others})
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ShapeError
from ..files import finite
from .formatting import table_number

Line = tuple[Sequence[float], Sequence[float]]
Point = Sequence[float]
Link = tuple[int, int]
"""A word and an earlier one, counted from 0."""


@dataclass(frozen=True)
class Panel:
    """One finding beside the runs: by itself what `lead` says, else one of the kinds below."""

    title: str
    caption: str
    """How to read it, in a sentence or two."""
    data: Any = field(default=None, kw_only=True)
    """The same in numbers: JSON-like."""
    finding: str = field(default="", kw_only=True)
    """A plain sentence for the top of the page; empty where the panel only illustrates."""
    lead: str = field(default="", kw_only=True)
    """Lines that stand above what is drawn."""
    below: tuple[Panel, ...] = field(default=(), kw_only=True)
    """What else is drawn in the same panel; a terminal shows a table below a chart in the place of its points."""

    folded: bool = field(default=False, kw_only=True)
    """On a page it opens when its title is pressed."""

    @property
    def text(self) -> str:
        """The panel for a terminal as wide as its tables."""
        from .drawing import in_text

        return in_text(self)

    @property
    def html(self) -> str:
        """The panel for a page, without its title; a chart with its caption."""
        from .drawing import in_html

        return in_html(self)

    def _repr_html_(self) -> str:
        from .drawing import in_notebook

        return in_notebook(self)

    def to_json(self) -> dict[str, Any]:
        return {"title": self.title, "caption": self.caption, "data": self.data}


@dataclass(frozen=True)
class TableCell:
    """More than a word in a cell of a table."""

    text: str
    notes: tuple[tuple[str, str], ...] = ()
    """Smaller lines below it: what each is about, and what it says."""
    mark: str = ""
    """A verdict on the cell; its sign says which colour it has: ✓ of a good one, ✗ or ≠ of a bad one, else neither."""
    bar: tuple[float, float] | None = None
    """A share that is drawn as a bar, and the share of a guess, a tick on it."""
    shade: float | None = None
    """How deep the cell is coloured, from 0 to 1."""
    link: str = ""
    """Where on the page the head of a row leads."""


def sign_of(verdict: str) -> str:
    """✓ of what is proved, ✗ of what is refuted, else ?"""
    return {"proved": "✓", "refuted": "✗"}.get(verdict, "?")


@dataclass(frozen=True)
class Verdict:
    """What is known of one model at every length."""

    subject: str
    verdict: str
    """proved, refuted or unknown."""
    summary: str
    """The verdict in a few words."""
    rest: str = ""
    """How the sentence goes on: the string that is wrong, how a proof was made, or why nothing is known."""

    @property
    def mark(self) -> str:
        return sign_of(self.verdict)


@dataclass(frozen=True)
class Table(Panel):
    """Rows under columns; the first cells of each row say what it is about."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | TableCell]]
    labels: int = field(default=1, kw_only=True)
    """How many of the first columns name a row: a narrow terminal repeats them."""
    keys: Sequence[int] = field(default=(), kw_only=True)
    """Each row is a line of a chart: which of its styles the row's key and bars have."""
    base: bool = field(default=False, kw_only=True)
    """The last row is what the others are compared with."""
    shaded: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """The columns with a ground of their own, each with a word on why."""


@dataclass(frozen=True)
class Verdicts(Panel):
    """Verdicts on several models."""

    verdicts: Sequence[Verdict]


@dataclass(frozen=True)
class Facts(Panel):
    """Values by name."""

    facts: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Chart(Panel):
    """Lines, or dots in a plane."""

    x_label: str
    y_label: str
    series: Mapping[str, tuple[Sequence[float], Sequence[float | None]]]
    """By name the xs and ys; a gap in a line is None."""
    dots: bool = False
    """On axes of one scale."""
    log_x: bool = False
    log_y: bool = False
    percent: bool = False
    """The ys are shares, written in percent, on an axis that ends at 100."""
    marks: Mapping[str, float] = field(default_factory=dict)
    """Named places on the x axis."""
    bands: Mapping[str, Line] = field(default_factory=dict)
    """By the name of a line its lows and highs."""
    base: str = ""
    """The line that the others are compared with, drawn in grey."""
    shaded: tuple[float, float] | None = None
    """What was trained on: a part of the x axis with a ground of its own."""
    half: bool = False
    """Half as wide as the page, beside another."""
    styles: Mapping[str, int] = field(default_factory=dict)
    """Which style a line has, where that is not its place among the lines."""
    hints: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By the name of a line what each of its points says beside its value."""


@dataclass(frozen=True)
class Arcs(Panel):
    """Links between the words of a sentence, each to an earlier one."""

    words: Sequence[str]
    links: Mapping[Link, float]


@dataclass(frozen=True)
class Machine(Panel):
    """A finite machine, drawn where it has few states."""

    claim: Mapping[str, Any]
    """Its states, steps and answers, as in a certificate."""


def record_table(
    title: str,
    caption: str,
    records: Iterable[Mapping[str, Any]],
    columns: Mapping[str, Callable[[Any], str | TableCell]],
    *,
    finding: str = "",
) -> Table:
    """Returns a row for each record, which is its data, with the cells that each column makes of it.

    >>> print(record_table("", "", [{"n": 8, "right": 0.5}], {"tokens": lambda r: str(r["n"])}).text)
    tokens
         8
    """
    data = list(records)
    rows = [[cell(record) for cell in columns.values()] for record in data]
    return Table(title, caption, list(columns), rows, data=finite(data), finding=finding)


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
) -> Table:
    """A table whose cells are the deeper shaded the higher their value; None or NaN: an empty cell.

    `corner` says what the rows are. `low` and `high` are the values of no and of full shade (default: the least and the
    greatest value). `percent`: the values are shares, written in percent.

    >>> print(heat_map("", "", ["C=2", "C=3"], ["parity", "cycle"], [[1, 1], [0.5, None]], percent=True).text)
         parity  cycle
    C=2   100.0  100.0
    C=3    50.0      –
    """
    if len(values) != len(rows) or any(len(row) != len(columns) for row in values):
        shape = [len(values), sorted({len(row) for row in values})]
        raise ShapeError(f"heat_map: needs {len(rows)} rows of {len(columns)} values, got {shape[0]} of {shape[1]}.")
    numbers = [[_finite(v) for v in row] for row in values]
    present = [v for row in numbers for v in row if v is not None] or [0.0]
    least, most = (min(present) if low is None else low), (max(present) if high is None else high)

    def cell(value: float | None) -> TableCell:
        depth = (value - least) / (most - least) if value is not None and most > least else 0.0
        return TableCell(table_number(value, percent), shade=None if value is None else min(1.0, max(0.0, depth)))

    cells = [[name, *map(cell, row)] for name, row in zip(rows, numbers, strict=True)]
    data = {"rows": list(rows), "columns": list(columns), "values": numbers}
    return Table(title, caption, [corner, *columns], cells, data=data)


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
    table: Table | None = None,
) -> Chart:
    """A line for each name in `series`, which holds (xs, ys); a NaN or infinite y leaves a gap.

    `percent`: the ys are shares, written in percent, on an axis that ends at 100. `marks`: named places on the x axis.
    `table`: the same numbers in words and as data, in the place of the chart's own.

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
    lines = {name: {"x": xs, "y": ys} for name, (xs, ys) in plain.items()}
    data = table.data if table else {"x": x_label, "y": y_label, "series": lines, "marks": places}
    below = (table,) if table else ()
    return Chart(title, caption, x_label, y_label, plain, False, log_x, log_y, percent, places, data=data, below=below)


def scatter_plot(title: str, caption: str, x_label: str, y_label: str, groups: Mapping[str, Sequence[Point]]) -> Chart:
    """A dot for each (x, y) of each named group, on axes of one scale, each group in its colour and with its name.

    >>> print(scatter_plot("Two kinds", "", "first", "second", {"even": [(0, 0), (0, 1)], "odd": [(9, 9)]}).text)
          dots    centre
    even     2  (0, 0.5)
    odd      1    (9, 9)
    """
    plain = {name: [(float(x), float(y)) for x, y in points] for name, points in groups.items() if len(points)}
    if not plain:
        raise ShapeError("scatter_plot: needs at least one point, got none.")
    series = {name: ([x for x, _ in points], [y for _, y in points]) for name, points in plain.items()}
    data = {"x": x_label, "y": y_label, "groups": {name: [list(p) for p in points] for name, points in plain.items()}}
    return Chart(title, caption, x_label, y_label, series, dots=True, data=data)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
