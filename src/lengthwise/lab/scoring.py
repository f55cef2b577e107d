"""How an answer is judged: the loss that trains, and the count of strings that are right.

Shapes: B batch, T tokens, S outputs. With (b, t) the asked places,
`loss = Σ loss(b, t) / number of asked places`; a string is right when
kind "class": its last asked place is right (the papers' score); kind "set": every asked place is, all bits of it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from ..tasks.base import Batch, Task


def logits(tagger: Callable[..., Tensor], batch: Batch, last: bool) -> Tensor:
    """(B, 1 or T, S) logits in at least single precision: of the last place when `last`, else of every place."""
    found = tagger(batch.tokens, last=last)
    return found if found.dtype == torch.float64 else found.float()


def narrow(batch: Batch, last: bool) -> Batch:
    """The batch's questions at the last place only, when `last`."""
    return Batch(batch.tokens, batch.targets[:, -1:], batch.mask[:, -1:]) if last else batch


def loss(found: Tensor, batch: Batch, task: Task) -> Tensor:
    """Mean loss over the asked places; no data-dependent shapes, so that it can be stacked over a population."""
    if task.kind == "set":
        each = F.binary_cross_entropy_with_logits(found, batch.targets.to(found.dtype), reduction="none").mean(-1)
    else:
        each = F.cross_entropy(found.transpose(1, 2), batch.targets, reduction="none")
    asked = batch.mask.to(found.dtype)
    return (each * asked).sum() / asked.sum()


def right(found: Tensor, batch: Batch, task: Task) -> Tensor:
    """(B,) booleans: which strings are right."""
    if task.kind == "set":
        places = ((found > 0) == batch.targets).all(-1)
        return (places | ~batch.mask).all(-1)
    places = found.argmax(-1) == batch.targets
    numbered = torch.arange(1, places.shape[1] + 1, device=places.device) * batch.mask
    return places.gather(1, numbered.argmax(1, keepdim=True))[:, 0]
