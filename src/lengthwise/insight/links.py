"""Are a head's strongest links those of the true graph?

Where the task is Boxes, every mention of a box depends on earlier phrases (mentions.py). Of each mention and head the
strongest link to a token before its own phrase is looked at: it is true when that token stands in a phrase the mention
depends on. By chance it would be with the share of the earlier tokens that do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import Error, ShapeError
from ..models import TokenClassifier
from ..tasks import Task
from ..tasks.boxes import Boxes
from .attention import Attention, attention
from .mentions import Mention, mentions


@dataclass(frozen=True)
class Truths:
    mentions: tuple[Mention, ...]
    """Those of the first string."""
    counted: int
    """Mentions in all strings."""
    shares: tuple[tuple[float, ...], ...]
    """By layer and head: the share of strongest links that are true."""
    chance: float

    @property
    def best(self) -> tuple[int, int]:
        """Layer and head of the largest share."""
        return max(
            ((i, j) for i, heads in enumerate(self.shares) for j in range(len(heads))),
            key=lambda at: self.shares[at[0]][at[1]],
        )


@dataclass(frozen=True)
class Links:
    model: str
    task: str
    strings: int
    words: tuple[str, ...]
    """Of the first string, whose weights `layers` has."""
    layers: tuple[Attention, ...]
    truth: Truths | None
    """None where the task has no graph."""

    def to_json(self) -> dict[str, Any]:
        truth = None
        if self.truth is not None:
            truth = {
                "counted": self.truth.counted,
                "shares": self.truth.shares,
                "chance": self.truth.chance,
                "mentions": [[m.token, [s.token for s in m.sources]] for m in self.truth.mentions],
            }
        return {
            "model": self.model,
            "task": self.task,
            "strings": self.strings,
            "words": self.words,
            "layers": [layer.to_json() for layer in self.layers],
            "truth": truth,
        }


def links(classifier: TokenClassifier, task: Task, tokens: Tensor) -> Links:
    """The links of every head over the strings `tokens` (B, T), of which the first is kept.

    >>> from lengthwise import models, tasks
    >>> task = tasks.get("boxes", form="advanced", boxes=4, objects=20)
    >>> classifier = models.build("chacal", vocab_size=task.outputs, num_outputs=task.outputs, width=8, heads=2)
    >>> found = links(classifier, task, task.test_set(3, 4).tokens)
    >>> [len(heads) for heads in found.truth.shares], 0 < found.truth.chance < 1
    ([2, 2], True)
    """
    if tokens.dim() != 2 or not tokens.numel():
        raise ShapeError(f"links: tokens must be (B,T) with at least one token, got {list(tokens.shape)}.")
    rows = [row if task.padding is None else row[row != task.padding] for row in tokens]
    first = attention(classifier, rows[0])
    truth = _truth(classifier, task, rows, first) if isinstance(task, Boxes) else None
    words = tuple(task.vocabulary[t] for t in rows[0].tolist())
    return Links(classifier.name, task.name, len(rows), words, first, truth)


def _truth(classifier: TokenClassifier, task: Boxes, rows: list[Tensor], first: tuple[Attention, ...]) -> Truths:
    every = [mentions(task, row) for row in rows]
    counted = sum(map(len, every))
    if not counted:
        raise Error(f"{task.name}: no mention of a box depends on another in these strings. Ask for longer ones.")
    hits = [torch.zeros(layer.heads) for layer in first]
    chance = 0.0
    for i, (row, found) in enumerate(zip(rows, every, strict=True)):
        layers = attention(classifier, row) if i else first
        for mention in found:
            true = torch.zeros(mention.start, dtype=torch.bool)
            for source in mention.sources:
                true[source.start : source.end] = True
            chance += float(true.float().mean())
            for hit, layer in zip(hits, layers, strict=True):
                hit += true[layer.weights[:, mention.token, : mention.start].argmax(-1).cpu()]
    shares = tuple(tuple((hit / counted).tolist()) for hit in hits)
    return Truths(every[0], counted, shares, chance / counted)
