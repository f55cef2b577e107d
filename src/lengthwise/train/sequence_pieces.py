"""One long sequence on several devices: each rank of a process group reads its piece.

    with sequence_parallel(model) as ranks:
        loss = model(piece, labels=piece).loss      # the loss of the whole sequence, on every rank
        loss.backward()                             # on every rank
        ranks.add_gradients(model.parameters())     # now they are those of one process

The pieces follow each other in the order of the ranks. They may have different lengths, and some may be empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist
from torch import nn

from ..errors import Error
from ..models.shell import LengthwisePreTrainedModel
from ..ops import Ranks


@contextmanager
def sequence_parallel(model: nn.Module, group: dist.ProcessGroup | None = None) -> Iterator[Ranks]:
    """Within the block `model` is given this rank's piece of every sequence; `group`: None is all processes.

    For models whose mixers have the trait `splits`: linear recurrences (block-lrnn, diagonal-lrnn, lru) and RegularGPT.
    The last logits (`logits_to_keep=1`, or `last=True` of a classifier) are the same on every rank.
    `Ranks.received` counts the bytes that came from other ranks.
    """
    shells = [part for part in model.modules() if isinstance(part, LengthwisePreTrainedModel)]
    if len(shells) != 1:
        why = f"only a model of this library can read a piece of a sequence, got {type(model).__name__}"
        raise Error(f"sequence_parallel: {why}. Build one with models.build or a preset.")
    (shell,), ranks = shells, Ranks(group)
    before = shell.ranks
    shell.split_over(ranks)
    try:
        yield ranks
    finally:
        shell.ranks = before
