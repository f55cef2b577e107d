"""A small table of words as a panel, for findings that are no picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from .panel import Panel


def tabular(title: str, caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], data: Any) -> Panel:
    """Rows of words under `head`; the first of each row says what it is about. `data`: the same in numbers.

    >>> print(tabular("", "", ["task", "clusters"], [["parity", "2"], ["cycle-navigation", "5"]], None).text)
    task              clusters
    parity            2
    cycle-navigation  5
    """
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    text = "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows))
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(word)}</td>" for word in row[1:])}</tr>'
        for row in rows
    )
    box = (
        f'<div class="box" tabindex="0" role="region" aria-label="{escape(title, quote=True)}"><table class="small">'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    return Panel(title, caption, box, text, data)
