"""What every head of a model links over a string."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..errors import ShapeError
from ..models import TokenClassifier
from ..tasks import Task
from .attention import Attention, read_attention


@dataclass(frozen=True)
class Links:
    model: str
    task: str
    words: tuple[str, ...]
    layers: tuple[Attention, ...]

    def to_json(self) -> dict[str, Any]:
        layers = [layer.to_json() for layer in self.layers]
        return {"model": self.model, "task": self.task, "words": self.words, "layers": layers}


def find_links(
    classifier: TokenClassifier, task: Task, tokens: Tensor, hear: Callable[[int, int], None] | None = None
) -> Links:
    """The links of every head over the first of the strings `tokens` (B, T).

    `hear` is told how many layers are read, of how many.

    >>> from lengthwise import models, tasks
    >>> task = tasks.get("boxes", form="advanced", boxes=4, objects=20)
    >>> classifier = models.build("chacal", vocab_size=task.outputs, num_outputs=task.outputs, width=8, heads=2)
    >>> links = find_links(classifier, task, task.test_set(3, 1).tokens)
    >>> links.words[-1], [layer.name for layer in links.layers]
    ('.', ['layer 0', 'layer 1'])
    """
    if tokens.dim() != 2 or not tokens.numel():
        raise ShapeError(f"find_links: tokens must be (B,T) with at least one token, got {list(tokens.shape)}.")
    string = tokens[0] if task.padding is None else tokens[0][tokens[0] != task.padding]
    words = tuple(task.vocabulary[t] for t in string.tolist())
    return Links(classifier.name, task.name, words, read_attention(classifier, string, hear))
