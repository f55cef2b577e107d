"""The answers of a model compared with the right ones, box by box. No answer, however odd, raises an error.

Shapes: B rows, N boxes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from .dependency_graph import dependencies
from .story import ITEMS, Story, items_of

PART = re.compile(rf"Box ([A-Z]) (?:contains ({ITEMS})|is empty)")


class StoryScores(NamedTuple):
    exact: Tensor
    """(B,) booleans: the answer is the right one, word by word."""
    right: Tensor
    """(B, N) booleans: the answer gives this box its right contents, in whatever order."""
    asked: Tensor
    """(B, N) booleans: the answer must name the box, as for all boxes but in the original form, which asks for one."""
    touched: Tensor
    """(B, N) integers: how many operations touched the box."""
    depth: Tensor
    """(B,) integers: the depth of the dependency graph."""


def contents_by_box(answer: str, query: str | None = None) -> dict[str, tuple[str, ...] | None]:
    """Returns the contents that an answer gives each box, None for a box it names twice.

    Parts that do not parse are left out.

    With `query` the answer is about that box alone, without naming it.

    >>> contents_by_box("Box A contains the tea and the map, Box B holds, Box C is empty, Box C is empty.")
    {'A': ('tea', 'map'), 'C': None}
    """
    contents: dict[str, tuple[str, ...] | None] = {}
    if query is not None:
        nothing = answer == "nothing."
        answer = f"Box {query} is empty." if nothing else f"Box {query} contains {answer}"
    for part in answer.removesuffix(".").split(", "):
        if match := PART.fullmatch(part):
            contents[match[1]] = None if match[1] in contents else items_of(match[2]) if match[2] else ()
    return contents


def score_answers(stories: Iterable[Story], answers: Iterable[str], boxes: str) -> StoryScores:
    """Answers as text, compared with stories after their last operation; `boxes` names the N boxes."""
    rows = [score_answer(story, answer, boxes) for story, answer in zip(stories, answers, strict=True)]
    return StoryScores(*map(torch.tensor, zip(*rows, strict=True)))


def score_answer(story: Story, answer: str, boxes: str) -> tuple[bool, list[bool], list[bool], list[int], int]:
    contents = contents_by_box(answer, story.query)
    unsaid = () if story.form == "advanced" else None  # There only occupied boxes are named.
    right = []
    for box in boxes:
        items = contents.get(box, unsaid)
        right.append(items is not None and sorted(items) == sorted(story.contents.get(box, ())))
    questions = [story.query in (None, box) for box in boxes]
    touched = [sum(box in operation.boxes for operation in story.operations) for box in boxes]
    return answer == story.answer(), right, questions, touched, dependencies(story).depth
