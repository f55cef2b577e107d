"""The phrases of a batch of stories, and their tokens, written for the whole batch at once.

Shapes: S phrases a row, B rows, T tokens. A phrase is a template, one or two boxes and a list of objects; where "*"
stands the objects go, "the bell and the cake". All tokens of one word of one template are written together.
"""

from __future__ import annotations

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


class Phrases:
    """The phrases of a batch of stories: the first of every row, then the second of every row, and so on."""

    def __init__(self, boxes: int, objects: int):
        self.boxes, self.objects = boxes, objects
        self.phrases: list[tuple[np.ndarray, ...]] = []
        self.ends: list[bool] = []

    def say(
        self, template: np.ndarray, a: np.ndarray, b: np.ndarray, named: np.ndarray, count: np.ndarray, ends: bool
    ) -> None:
        """Add one phrase to every row; `named` are the places in (B, M) of the `count` (B,) objects it lists."""
        self.phrases.append((template, a, b, count, named % self.objects))
        self.ends.append(ends)

    def clauses(self, where: np.ndarray, boxes: np.ndarray, templates: tuple[int, int, int]) -> None:
        """Add a sentence on the contents of `boxes` (B, any). The templates are for no, one and several objects."""
        for s, box in enumerate(boxes.T):
            inside = np.flatnonzero(where == box[:, None].astype(where.dtype))
            count = np.bincount(inside // self.objects, minlength=len(where))
            template = np.array(templates)[np.minimum(count, 2)]
            self.say(template, box, box, inside, count, ends=s == boxes.shape[1] - 1)

    def tokens(self) -> np.ndarray:
        """(B, T) padded on the right to the longest row."""
        *parts, objects = zip(*self.phrases, strict=True)
        S, B = len(parts[0]), len(parts[0][0])
        template, a, b, count = (np.concatenate(part) for part in parts)
        a, b, objects = a + len(GLUE), b + len(GLUE), np.concatenate(objects)
        mark = np.repeat(np.where(self.ends, STOP, COMMA), B)
        listed = np.maximum(3 * count - 1, 0)
        length = (BEFORE[template] + listed + AFTER[template]).reshape(S, B)
        end = length.cumsum(0)
        T = int(end[-1].max())
        start = (end - length + T * np.arange(B)).ravel()
        out = np.full(B * T, PAD, dtype=np.int16)

        place = np.arange(len(objects)) - np.repeat(count.cumsum() - count, count)
        at = np.repeat(start + BEFORE[template], count) + 3 * place
        out[at] = GLUE_ID["the"]
        out[at + 1] = objects + len(GLUE) + self.boxes
        out[at + 2] = GLUE_ID["and"]  # After the last object the template's next word overwrites it.
        for kind, parts in enumerate(PARTS):
            here = np.flatnonzero(template == kind)
            special = {"a": a[here], "b": b[here], ";": mark[here]}
            at = start[here]
            for side, gap in zip(parts, (listed[here], 0), strict=True):
                for word in side:
                    out[at] = special[word] if word in special else GLUE_ID[word]
                    at += 1
                at += gap
        out = out.reshape(B, T).astype(np.int64)
        for small, capital in CAPITAL.items():
            out[out[:, 0] == small, 0] = capital
        return out
