"""Count the strings of a batch that a model gets right, in pieces that fit the memory at hand.

A string whose logits are not finite is answered wrong, and counted.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..errors import NonFiniteError, OutOfMemory
from ..limits import memory_free
from ..models.token_classifier import equal_tokens
from ..tasks.base import Batch, Task
from .scoring import asked, logits, loss, narrow, right

TOKENS = 1 << 16
HEADS = 8
"""Assumed where a model may hold T×T logits; generous for the small models this lab trains."""


class Counted(NamedTuple):
    """The counts of a batch of strings of one length."""

    right: float
    """Whole, unless a string can be right in part (scoring "mean")."""
    loss: float
    """The mean at the places the strings are judged by; NaN or infinite where logits are."""
    overflowed: int
    """Strings of which a logit is not finite: none of them is right."""


def batch_size(length: int, samples: int, free: int) -> int:
    """Strings a batch: at most `TOKENS` tokens, and three T×T float matrices a head within half of the `free` bytes."""
    quadratic = 3 * HEADS * 4 * length * length
    return max(1, min(samples, TOKENS // length, free // 2 // quadratic))


def ran_out(error: Exception) -> bool:
    """Returns whether there was not enough memory; on the CPU that is a RuntimeError like any other."""
    return isinstance(error, (OutOfMemory, torch.OutOfMemoryError)) or "allocate memory" in str(error)


def precision(name: str, device: torch.device) -> contextlib.AbstractContextManager:
    """Autocast for bf16; weights stay in fp32."""
    return torch.autocast(device.type, torch.bfloat16) if name == "bf16" else contextlib.nullcontext()


def one_place(task: Task, batch: Batch) -> bool:
    """Returns whether the score needs the last position's logits alone."""
    return task.scoring == "last" and bool(batch.mask[:, -1].all())


def _answers(classifier: nn.Module, task: Task, batch: Batch, last: bool) -> Tensor:
    """The logits; NaN for a string which the model refuses to go on with, for numbers inside it are not finite."""
    try:
        return logits(classifier, batch, last)
    except NonFiniteError:
        count, length = batch.tokens.shape
        if count == 1:
            return torch.full((1, 1 if last else length, task.logits), torch.nan, device=batch.tokens.device)
        # It refuses a batch for one of its strings.
        return torch.cat(
            [_answers(classifier, task, Batch(*(a[i : i + 1] for a in batch)), last) for i in range(count)]
        )


@torch.no_grad()
def count_right(
    classifier: nn.Module,
    task: Task,
    batch: Batch,
    *,
    device: torch.device,
    autocast: str = "fp32",
    share: int = 1,
    strict: bool = False,
) -> Counted:
    """Counts the strings of `batch` that are right, their loss, and how many overflowed.

    `share` processes share the machine's memory. strict: what a model itself refuses stays an error.
    """
    last = one_place(task, batch)
    total, length = batch.tokens.shape
    size = batch_size(length, total, memory_free(device) // share)
    correct, overflowed, losses, weights, at = 0, 0, 0.0, 0, 0
    while at < total:
        piece = Batch(*(a[at : at + size].to(device) for a in batch))
        try:
            with precision(autocast, device), equal_tokens(classifier, reused=True):
                answers = logits(classifier, piece, last) if strict else _answers(classifier, task, piece, last)
        except (RuntimeError, OutOfMemory) as error:
            if not ran_out(error) or (size == 1 and isinstance(error, OutOfMemory)):
                raise
            if size == 1:
                raise OutOfMemory(
                    f"A string of {length} tokens does not fit the memory. Ask for shorter ones."
                ) from error
            size = max(1, size // 2)
            continue
        questions, bad = narrow(piece, last), ~torch.isfinite(answers).flatten(1).all(1)
        # Not by the greatest logit: NaN is greater than all, and may stand at the right answer.
        correct += right(answers, questions, task).masked_fill(bad, 0).sum().item()
        overflowed += int(bad.sum())
        # Strings may be asked unequally much: a mean over all that is asked does not depend on the pieces.
        weight = int(asked(questions, task).sum())
        losses, weights = losses + float(loss(answers, questions, task)) * weight, weights + weight
        at += len(piece.tokens)
    return Counted(correct, losses / weights, overflowed)
