"""What every head of a model links over some strings and, where the task is Boxes, whether it links truly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..errors import ShapeError
from ..models import TokenClassifier
from ..tasks import Task
from ..tasks.boxes import Boxes
from .attention import Attention, read_attention
from .boxes.link_truth import LinkTruth, judge_links


@dataclass(frozen=True)
class Links:
    model: str
    task: str
    strings: int
    words: tuple[str, ...]
    """The words of the first string."""
    layers: tuple[Attention, ...]
    """The weights over the first string."""
    truth: LinkTruth | None
    """None where the task has no graph."""

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "task": self.task,
            "strings": self.strings,
            "words": self.words,
            "layers": [layer.to_json() for layer in self.layers],
            "truth": self.truth.to_json() if self.truth else None,
        }


def find_links(
    classifier: TokenClassifier, task: Task, tokens: Tensor, hear: Callable[[int, int], None] | None = None
) -> Links:
    """The links of every head over the strings `tokens` (B, T), of which the first is kept.

    Without a graph to judge them by, no other string is read. `hear` is told how many layers are read, of how many.

    >>> from lengthwise import models, tasks
    >>> task = tasks.get("boxes", form="advanced", boxes=4, objects=20)
    >>> classifier = models.build("chacal", vocab_size=task.outputs, num_outputs=task.outputs, width=8, heads=2)
    >>> links = find_links(classifier, task, task.test_set(3, 4).tokens)
    >>> [len(heads) for heads in links.truth.shares], 0 < links.truth.chance < 1
    ([2, 2], True)
    """
    if tokens.dim() != 2 or not tokens.numel():
        raise ShapeError(f"find_links: tokens must be (B,T) with at least one token, got {list(tokens.shape)}.")
    strings = [row if task.padding is None else row[row != task.padding] for row in tokens]
    strings = strings if isinstance(task, Boxes) else strings[:1]

    def read(number: int) -> tuple[Attention, ...]:
        def told(done: int, of: int) -> None:
            if hear:
                hear(number * of + done, len(strings) * of)

        return read_attention(classifier, strings[number], told)

    first = read(0)

    def attention() -> Iterator[tuple[Attention, ...]]:
        yield first
        yield from map(read, range(1, len(strings)))

    truth = judge_links(task, strings, attention()) if isinstance(task, Boxes) else None
    words = tuple(task.vocabulary[t] for t in strings[0].tolist())
    return Links(classifier.name, task.name, len(strings), words, first, truth)
