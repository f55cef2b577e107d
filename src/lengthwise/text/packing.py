"""Which blocks of a text a step reads, and in which parts.

Shapes: N blocks, T tokens of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from ..seeds import generator


def batch(blocks: Tensor, step: int, size: int, seed: int) -> Tensor:
    """(size, T) the blocks to train on at a step: a function of (seed, step) alone.

    An epoch reads every block once, in an order drawn for the epoch. A batch may span two epochs.
    """
    return blocks[drawn(len(blocks), step, size, seed)].long()


def drawn(count: int, step: int, size: int, seed: int) -> list[int]:
    """Returns which of `count` rows are read at a step: every one once an epoch, in an order drawn for the epoch."""
    places = [divmod(i, count) for i in range(step * size, (step + 1) * size)]
    return [_order(count, epoch, seed)[i] for epoch, i in places]


def parts(rows: Tensor, tokens: int) -> Sequence[Tensor]:
    """The rows in parts of about `tokens` tokens, each of at least one row."""
    return rows.split(max(1, tokens // rows.shape[1]))


@lru_cache(maxsize=2)
def _order(count: int, epoch: int, seed: int) -> list[int]:
    return torch.randperm(count, generator=generator("blocks", seed, epoch)).tolist()
