"""How an answer is scored: the loss that trains, and the score of every string.

Shapes: B batch, T tokens, S outputs, E questions of a place (one, but for tasks that say otherwise).
`loss = Σ loss(b, t, e) / number of questions`, over the questions (b, t, e) which exist at asked places.
A place is right when its class is, or all bits of its set. By the task's `scoring` a string scores
"last": whether its last asked place is right; "every": whether every asked place is; "mean": the share of its
questions that are right; so does "generated" while the right tokens stand before the model's eyes, as in training.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from ..tasks.base import Batch, Task


def logits(classifier: Callable[..., Tensor], batch: Batch, last: bool) -> Tensor:
    """(B, 1 or T, S) logits in at least single precision: of the last place when `last`, else of every place."""
    answers = classifier(batch.tokens, last=last)
    return answers if answers.dtype == torch.float64 else answers.float()


def narrow(batch: Batch, last: bool) -> Batch:
    """The batch's questions at the last place only, when `last`."""
    return Batch(batch.tokens, batch.targets[:, -1:], batch.mask[:, -1:]) if last else batch


def asked(batch: Batch, task: Task) -> Tensor:
    """(B, T) or (B, T, E) booleans: what is asked."""
    return batch.mask if task.questions == 1 else batch.mask[..., None] & (batch.targets >= 0)


def by_entry(answers: Tensor, task: Task) -> Tensor:
    """(B, T, S) or (B, T, E, S) logits."""
    return answers if task.questions == 1 else answers.unflatten(-1, (task.questions, task.outputs))


def loss(answers: Tensor, batch: Batch, task: Task) -> Tensor:
    """Mean loss over what is asked; no data-dependent shapes, so that it can be stacked over a population."""
    if task.kind == "set":
        each = F.binary_cross_entropy_with_logits(answers, batch.targets.to(answers.dtype), reduction="none").mean(-1)
    else:
        # What is not asked may have no class, and its loss is not counted.
        classes = batch.targets.clamp(min=0)
        each = F.cross_entropy(by_entry(answers, task).movedim(-1, 1), classes, reduction="none")
    counted = asked(batch, task).to(answers.dtype)
    # One process's part of a batch may ask nothing.
    return (each * counted).sum() / counted.sum().clamp(min=1)


def right(answers: Tensor, batch: Batch, task: Task, scoring: str | None = None) -> Tensor:
    """(B,) the score of every string, by the task's scoring or another: a boolean, of "mean" a share as a double."""
    scoring = scoring or task.scoring
    if task.kind == "set":
        places = ((answers > 0) == batch.targets).all(-1)
    else:
        places = by_entry(answers, task).argmax(-1) == batch.targets
    counted = asked(batch, task)
    if scoring in ("mean", "generated"):
        counted = counted.flatten(1)
        return (places.flatten(1) & counted).sum(1).double() / counted.sum(1)
    if scoring == "every":
        return (places | ~counted).flatten(1).all(1)
    places = places if task.questions == 1 else (places | ~counted).all(-1)
    numbered = torch.arange(1, places.shape[1] + 1, device=places.device) * batch.mask
    return places.gather(1, numbered.argmax(1, keepdim=True))[:, 0]
