"""Are a head's strongest links those of the true graph of a story?

Every mention of a box depends on earlier phrases (mentions.py). For each mention and head, the strongest link to a
token before the mention's own phrase is true when that token stands in a phrase the mention depends on. Chance is the
share of the earlier tokens that stand in such a phrase.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...errors import Error
from ...tasks.boxes import Boxes
from ..attention import Attention
from .mentions import Mention, dependent_mentions


@dataclass(frozen=True)
class LinkTruth:
    mentions: tuple[Mention, ...]
    """Those of the first story."""
    counted: int
    """Mentions in all stories."""
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

    def to_json(self) -> dict[str, Any]:
        return {
            "counted": self.counted,
            "shares": self.shares,
            "chance": self.chance,
            "mentions": [[m.token, [s.token for s in m.sources]] for m in self.mentions],
        }


def judge_links(task: Boxes, stories: Sequence[Tensor], attention: Iterable[tuple[Attention, ...]]) -> LinkTruth:
    """Counts the strongest links that are true; `attention` is of each story in turn, layer by layer."""
    mentions = [dependent_mentions(task, story) for story in stories]
    counted = sum(map(len, mentions))
    if not counted:
        raise Error(f"{task.name}: no mention of a box depends on another in these strings. Ask for longer ones.")
    hits: list[Tensor] = []
    chance = 0.0
    for layers, of_story in zip(attention, mentions, strict=True):
        hits = hits or [torch.zeros(layer.heads) for layer in layers]
        for mention in of_story:
            true = torch.zeros(mention.start, dtype=torch.bool)
            for source in mention.sources:
                true[source.start : source.end] = True
            chance += float(true.float().mean())
            for hit, layer in zip(hits, layers, strict=True):
                hit += true[layer.weights[:, mention.token, : mention.start].argmax(-1).cpu()]
    shares = tuple(tuple((hit / counted).tolist()) for hit in hits)
    return LinkTruth(mentions[0], counted, shares, chance / counted)
