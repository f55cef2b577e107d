"""How models are probed: with test strings of their task as long as the paper's; where they are, without dropout,
every token for itself, and left as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated

from torch import Tensor
from torch.utils.hooks import RemovableHandle

from ..limits import PROBED, in_figures
from ..models import TokenClassifier
from ..models.token_classifier import equal_tokens, evaluating
from ..options import at_least, checked
from ..tasks import GeneratedAnswers, Task

LENGTH = 500
READABLE = 24
"""A reader takes in so many tokens at a glance."""
STORY = 6
"""The same in operations, for a task whose length is not its number of tokens."""


@checked
def probe_strings(task: Task, length: int | None = None, count: Annotated[int, at_least(1), "Strings."] = 1) -> Tensor:
    """(count, length) test tokens; without a length, the longest that the task has up to 500, or 6 steps.

    >>> from lengthwise import tasks
    >>> [probe_strings(tasks.get(name)).shape[1] for name in ("parity", "modular-arithmetic")]
    [500, 499]
    >>> probe_strings(tasks.get("arithmetic-steps")).shape[1] < 100
    True
    """
    if length is None:
        # Where every step is written down, the tokens are the square of the length.
        length = task.lengths(1, STORY if isinstance(task, GeneratedAnswers) else LENGTH)[-1]
    task.check(length)
    PROBED.check(count * length, f"{in_figures(count)} strings of length {length:,}")
    return task.test_set(length, count).tokens


def readable_length(task: Task) -> int:
    """The longest length, up to 24 tokens or 6 operations, whose string can be drawn word by word.

    >>> from lengthwise import tasks
    >>> [readable_length(tasks.get(name)) for name in ("parity", "modular-arithmetic", "boxes")]
    [24, 23, 6]
    """
    return task.lengths(1, READABLE if task.padding is None else STORY)[-1]


def beside(classifier: TokenClassifier, tokens: Tensor) -> Tensor:
    """The tokens on the device of the model, which may be a GPU; test strings are made on the CPU."""
    first = next(classifier.parameters(), None)
    return tokens if first is None else tokens.to(first.device)


@contextmanager
def listening(classifier: TokenClassifier, hooks: Iterable[RemovableHandle] = ()) -> Iterator[None]:
    """Within the block the classifier is in evaluation mode, and every token is computed for itself; then `hooks` go.

    Of equal tokens that are computed once there are fewer nodes than tokens to look at, and the gradients of all of
    them arrive at one.
    """
    with ExitStack() as leaving:
        for hook in hooks:
            leaving.callback(hook.remove)
        with evaluating(classifier), equal_tokens(classifier, reused=False):
            yield
