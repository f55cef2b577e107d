"""What was extracted from a model, as a panel: the table of its algebra or the diagram of its machine."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from .machine_diagram import machine_diagram
from .panel import Panel

if TYPE_CHECKING:
    from ..verify.extraction import Algebra, Extracted, Moore

MOST = 16
"""Tables of more elements are not drawn."""


def extracted_panel(found: Extracted, of: str) -> Panel:
    """`of`: which model of which task."""
    text, caption = str(found), "What was extracted says what the model says of as many words as are named."
    body = f"<p>{escape(text[:1].upper() + text[1:])}.</p>"
    if found.algebra is not None:
        table = _table(found.algebra)
        body += _html(table)
        text += "".join("\n" + "  ".join(row) for row in table)
        caption += " In the table the element of a row's words followed by a column's." if table else ""
    else:
        assert found.moore is not None
        body += machine_diagram(f"The machine of {of}", _claim(found.moore))
        caption += " In each state what the model says, on each arrow the symbols that take it."
    return Panel(f"What {of} computes", caption, body, text, found.to_json())


def _claim(moore: Moore) -> dict[str, Any]:
    """The machine with its answers in the place of right ones."""
    several = any(isinstance(said, tuple) for said in moore.said)
    outputs = 1 + max((max(said, default=0) for said in moore.said if isinstance(said, tuple)), default=0)
    answers = [
        [o in said for o in range(outputs)] if several and isinstance(said, tuple) else (0 if said is None else said)
        for said in moore.said
    ]
    return {**moore.machine.to_json(), "answers": answers, "asked": [said is not None for said in moore.said]}


def _table(algebra: Algebra) -> list[list[str]]:
    """A row for each element: its name, its products with each element, and what is said; empty for larger ones."""
    names = [f"e{e}" for e in range(len(algebra))]
    for s in reversed(range(len(algebra.symbols))):
        if (e := algebra.leaf(s)) is not None:
            names[e] = algebra.symbols[s]
    if len(algebra) > MOST or len(set(names)) < len(names):
        return []
    name = lambda e: "–" if e is None else names[e]  # noqa: E731
    rows = [
        [names[a], *(name(algebra.product(a, b)) for b in range(len(names))), str(algebra.said[a])]
        for a in range(len(names))
    ]
    cells = [["", *names, "says"], *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]


def _html(table: list[list[str]]) -> str:
    if not table:
        return ""
    head, *rows = [[escape(cell.strip()) for cell in row] for row in table]
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>' for row in rows
    )
    return (
        '<div class="box" tabindex="0" role="region" aria-label="Table of the algebra"><table class="small">'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )
