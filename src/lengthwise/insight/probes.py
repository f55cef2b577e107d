"""The strings that insight gives a model to read: test strings of its task, as long as the paper's."""

from __future__ import annotations

from torch import Tensor

from ..errors import Error
from ..tasks import Task

LENGTH = 500
READABLE = 24
"""A reader takes in so many tokens at a glance."""
STORY = 6
"""The same in operations, for a task whose length is not its number of tokens."""


def probe_strings(task: Task, length: int | None = None, count: int = 1) -> Tensor:
    """(count, length) test tokens; without a length, the longest that the task has up to 500.

    >>> from lengthwise import tasks
    >>> [probe_strings(tasks.get(name)).shape[1] for name in ("parity", "modular-arithmetic")]
    [500, 499]
    """
    if count < 1:
        raise Error(f"the number of strings must be at least 1, got {count}.")
    return task.test_set(task.lengths(1, LENGTH)[-1] if length is None else length, count).tokens


def readable_length(task: Task) -> int:
    """The longest length, up to 24 tokens or 6 operations, whose string can be drawn word by word.

    >>> from lengthwise import tasks
    >>> [readable_length(tasks.get(name)) for name in ("parity", "modular-arithmetic", "boxes")]
    [24, 23, 6]
    """
    return task.lengths(1, READABLE if task.padding is None else STORY)[-1]
