"""What was extracted from a model, as a panel: the table of its algebra or the diagram of its machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .panel import Machine, Panel, Table

if TYPE_CHECKING:
    from ..verify.extraction import Extracted

MOST = 16
"""Tables of more elements are not drawn."""


def extracted_panel(extraction: Extracted, of: str) -> Panel:
    """What `verify.extract` found; `of`: which model of which task."""
    text = str(extraction)
    return panel_of(extraction.to_json(), f"{text[:1].upper()}{text[1:]}.", of)


def panel_of(data: dict[str, Any], sentence: str, of: str) -> Panel:
    """The same from what `Extracted.to_json` says, and a sentence about it."""
    caption = "What was extracted says what the model says of as many words as are named."
    below: list[Panel] = []
    if table := _table(data["algebra"]):
        caption += " In the table the element of a row's words followed by a column's."
        below.append(Table("Table of the algebra", "", table[0], table[1:]))
    if data["machine"]:
        caption += " In each state what the model says, on each arrow the symbols that take it."
        below.append(Machine(f"The machine of {of}", "", _claim(data["machine"])))
    lead = "\n".join(
        [sentence, *(f"Says {answer} after the words {regex}" for answer, regex in data["regexes"].items())]
    )
    return Panel(f"What {of} computes", caption, data=data, lead=lead, below=tuple(below))


def _claim(moore: dict[str, Any]) -> dict[str, Any]:
    """The machine with its answers, in words, in the place of right ones."""
    answers = [",".join(map(str, each)) or "–" if isinstance(each, list) else each for each in moore["said"]]
    return {**moore, "answers": answers, "asked": [answer is not None for answer in moore["said"]]}


def _table(algebra: dict[str, Any] | None) -> list[list[str]]:
    """A row for each element: its name, its products with each element, and what is said; empty for larger ones."""
    if algebra is None or algebra["elements"] > MOST:
        return []
    symbols, count = algebra["symbols"], algebra["elements"]
    made = {tuple(inputs): e for *inputs, e in algebra["table"]}
    names = [f"e{e}" for e in range(count)]
    for s in reversed(range(len(symbols))):
        if (e := made.get((s,))) is not None:
            names[e] = symbols[s]
    if len(set(names)) < len(names):
        return []
    product = lambda a, b: made.get((len(symbols) + a, len(symbols) + b))  # noqa: E731
    name = lambda e: "–" if e is None else names[e]  # noqa: E731
    answers = [str(tuple(s) if isinstance(s, list) else s) for s in algebra["said"]]
    rows = [[names[a], *(name(product(a, b)) for b in range(count)), answers[a]] for a in range(count)]
    return [["", *names, "says"], *rows]
