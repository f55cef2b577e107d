"""Tables as panels: a table of words, and a heat map whose cells are the deeper shaded the higher their value.

text_table("Clusters", "How many.", ["task", "clusters"], [["parity", "2"], ["cycle-navigation", "5"]], {"parity": 2})
heat_map("Chunk sizes", "Accuracy at 500.", ["C=2", "C=3"], ["parity", "cycle"], [[1, 1], [1, 0.9]], percent=True)

Both are HTML tables on the page, so that their numbers can be read, copied and scrolled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from ..errors import ShapeError
from .formatting import in_columns, table_number
from .panel import Panel

DEEPEST = 50
"""Percent of colour in a map's highest cell: with more, the number in it no longer stands out."""


def text_table(title: str, caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], data: Any) -> Panel:
    """Rows of words under `head`; the first word of each row says what it is about. `data`: the same in numbers.

    >>> print(text_table("", "", ["task", "clusters"], [["parity", "2"], ["cycle-navigation", "5"]], None).text)
    task              clusters
    parity            2
    cycle-navigation  5
    """
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(word)}</td>" for word in row[1:])}</tr>'
        for row in rows
    )
    return Panel(title, caption, _scrolled(title, top, body), in_columns(head, rows, "<" * len(head)), data)


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
    """A cell for each row and column; None or NaN: an empty cell.

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
    numbers = [[None if v is None or not math.isfinite(v) else float(v) for v in row] for row in values]
    present = [v for row in numbers for v in row if v is not None] or [0.0]
    least, most = (min(present) if low is None else low), (max(present) if high is None else high)
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in (corner, *columns))
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(_shaded(v, least, most, percent) for v in row)}</tr>'
        for name, row in zip(rows, numbers, strict=True)
    )
    cells = [[name, *(table_number(v, percent) for v in row)] for name, row in zip(rows, numbers, strict=True)]
    text = in_columns([corner, *columns], cells, "<" + ">" * len(columns))
    data = {"rows": list(rows), "columns": list(columns), "values": numbers}
    return Panel(title, caption, _scrolled(title, top, body), text, data)


def _shaded(value: float | None, low: float, high: float, percent: bool) -> str:
    if value is None:
        return "<td>–</td>"
    share = min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0
    colour = f"color-mix(in srgb, var(--s0) {DEEPEST * share:.0f}%, var(--card))"
    return f'<td style="background:{colour}">{table_number(value, percent)}</td>'


def _scrolled(title: str, head: str, body: str) -> str:
    """The table in a box that scrolls sideways on a narrow page."""
    return (
        f'<div class="box" tabindex="0" role="region" aria-label="{escape(title, quote=True)}"><table class="small">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
