"""The phrases of a batch of stories as arrays, and their tokens, written for the whole batch at once.

Shapes: S phrases a row, B rows, T tokens. A phrase is a template, one or two boxes and a list of objects; where "*"
stands the objects go, "the bell and the cake". All tokens of one word of one template are written together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .vocabulary import COMMA, GLUE, GLUE_ID, PAD, STOP

TEMPLATES = (
    "* is in Box a ;",
    "* are in Box a ;",
    "there is nothing in Box a ;",
    "Move * from Box a to Box b ;",
    "Move the contents of Box a to Box b ;",
    "Remove * from Box a ;",
    "Put * into Box a ;",
    "Box a contains * ;",
    "Box a is empty ;",
    "Box a contains nothing ;",
)
"""";" is a comma, and a full stop where the sentence ends."""
IS, ARE, NOTHING, MOVE, MOVE_ALL, REMOVE, PUT, CONTAINS, EMPTY, CONTAINS_NOTHING = range(len(TEMPLATES))
PARTS = [(before.split(), after.split()) for before, _, after in (text.partition("*") for text in TEMPLATES)]
"""The words before and after the objects."""
BEFORE = np.array([len(before) for before, _ in PARTS])
AFTER = np.array([len(after) for _, after in PARTS])
CAPITAL = {GLUE_ID["the"]: GLUE_ID["The"], GLUE_ID["there"]: GLUE_ID["There"]}


@dataclass
class Phrases:
    """The s-th phrase of every row, for s in 0..S-1, in order."""

    template: np.ndarray
    """(S, B)"""
    a: np.ndarray
    """(S, B) the box named first."""
    b: np.ndarray
    """(S, B) the box named second; anything where there is none."""
    count: np.ndarray
    """(S, B) how many objects are named."""
    objects: np.ndarray
    """All objects named, phrase after phrase and in each row after row."""
    ends: np.ndarray
    """(S,) whether a sentence ends with the phrase."""


def write_tokens(phrases: Phrases, boxes: int) -> np.ndarray:
    """(B, T) tokens, padded on the right to the longest row."""
    template, count = phrases.template.ravel(), phrases.count.ravel()
    a, b = phrases.a.ravel() + len(GLUE), phrases.b.ravel() + len(GLUE)
    S, B = phrases.template.shape
    mark = np.repeat(np.where(phrases.ends, STOP, COMMA), B)
    listed = np.maximum(3 * count - 1, 0)
    length = (BEFORE[template] + listed + AFTER[template]).reshape(S, B)
    end = length.cumsum(0)
    T = int(end[-1].max())
    start = (end - length + T * np.arange(B)).ravel()
    out = np.full(B * T, PAD)

    place = np.arange(len(phrases.objects)) - np.repeat(count.cumsum() - count, count)
    at = np.repeat(start + BEFORE[template], count) + 3 * place
    out[at] = GLUE_ID["the"]
    out[at + 1] = phrases.objects + len(GLUE) + boxes
    out[at + 2] = GLUE_ID["and"]  # After the last object the template's next word overwrites it.
    for kind, parts in enumerate(PARTS):
        here = np.flatnonzero(template == kind)
        special = {"a": a[here], "b": b[here], ";": mark[here]}
        at = start[here]
        for words, gap in zip(parts, (listed[here], 0), strict=True):
            for word in words:
                out[at] = special[word] if word in special else GLUE_ID[word]
                at += 1
            at += gap
    out = out.reshape(B, T)
    for small, capital in CAPITAL.items():
        out[out[:, 0] == small, 0] = capital
    return out
