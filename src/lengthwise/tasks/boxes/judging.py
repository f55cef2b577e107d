"""Answers compared with the truth, box by box. Nothing here raises because of what a model says.

Shapes: B rows, N boxes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import Error
from .checking import answered
from .graph import dependencies
from .reading import Story


class Judgement(NamedTuple):
    exact: Tensor
    """(B,) booleans: the answer is the right one, word by word."""
    right: Tensor
    """(B, N) booleans: the answer gives this box its right contents, in whatever order."""
    asked: Tensor
    """(B, N) booleans: the box is asked for; all are, but in the original form one."""
    touched: Tensor
    """(B, N) integers: how many operations touched the box."""
    depth: Tensor
    """(B,) integers: the depth of the dependency graph."""


def per_box(answer: str, query: str | None = None) -> dict[str, tuple[str, ...] | None]:
    """What an answer says of each box it names; None where it names a box twice. What does not parse is left out.

    With `query` the answer speaks of that box alone, without naming it.

    >>> per_box("Box A contains the tea and the map, Box B holds, Box C is empty, Box C is empty.")
    {'A': ('tea', 'map'), 'C': None}
    """
    found: dict[str, tuple[str, ...] | None] = {}
    if query is not None:
        nothing = answer == "nothing."
        answer = f"Box {query} is empty." if nothing else f"Box {query} contains {answer}"
    for part in answer.removesuffix(".").split(", "):
        try:
            box, items = answered(part)
        except Error:
            continue
        found[box] = None if box in found else items
    return found


def judge(stories: Iterable[Story], answers: Iterable[str], boxes: str) -> Judgement:
    """Answers as text against stories that have been carried out; `boxes` names the N boxes."""
    rows = [judge_one(story, answer, boxes) for story, answer in zip(stories, answers, strict=True)]
    return Judgement(*map(torch.tensor, zip(*rows, strict=True)))


def judge_one(story: Story, answer: str, boxes: str) -> tuple[bool, list[bool], list[bool], list[int], int]:
    said = per_box(answer, story.query)
    unsaid = () if story.form == "advanced" else None  # There only occupied boxes are named.
    right = []
    for box in boxes:
        items = said.get(box, unsaid)
        right.append(items is not None and sorted(items) == sorted(story.contents.get(box, ())))
    asked = [story.query in (None, box) for box in boxes]
    touched = [sum(box in operation.boxes for operation in story.operations) for box in boxes]
    return answer == story.answer(), right, asked, touched, dependencies(story).depth
