"""Score strings at every test length, in batches that fit the memory at hand.

The strings of a length are a function of (task, length, seed) alone: every model is tested on the same ones.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

import torch
from torch import nn

from ..errors import NonFiniteError
from ..tasks.base import Batch, Task
from .scoring import asked, logits, loss, narrow, right

TOKENS = 1 << 16
HEADS = 8
"""Assumed where a model may hold T×T logits; generous for the small models this lab trains."""


def memory_free(device: torch.device) -> int:
    """Bytes this process may use: the GPU's free memory, or its share of the machine's."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        with open("/proc/meminfo") as file:
            kib = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
        return kib * 1024
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def batch_size(length: int, samples: int, free: int) -> int:
    """Strings a batch: at most `TOKENS` tokens, and three T×T float matrices a head within half of the `free` bytes."""
    quadratic = 3 * HEADS * 4 * length * length
    return max(1, min(samples, TOKENS // length, free // 2 // quadratic))


def precision(name: str, device: torch.device) -> contextlib.AbstractContextManager:
    """Autocast for bf16; weights stay in fp32."""
    return torch.autocast(device.type, torch.bfloat16) if name == "bf16" else contextlib.nullcontext()


def one_place(task: Task, batch: Batch) -> bool:
    """Whether the score needs the last position's logits alone."""
    return task.judged == "last" and bool(batch.mask[:, -1].all())


@torch.no_grad()
def count_right(
    tagger: nn.Module,
    task: Task,
    batch: Batch,
    *,
    device: torch.device,
    autocast: str = "fp32",
    share: int = 1,
) -> tuple[float, float]:
    """How many strings of `batch` are right, and the mean loss at the places they are judged by.

    The count is whole unless a string can be right in part (judged "mean"). `share` processes share the machine's
    memory.
    """
    last = one_place(task, batch)
    total, length = batch.tokens.shape
    size = batch_size(length, total, memory_free(device) // share)
    correct, losses, weights, at = 0, 0.0, 0, 0
    while at < total:
        piece = Batch(*(a[at : at + size].to(device) for a in batch))
        try:
            with precision(autocast, device):
                found = logits(tagger, piece, last)
        except RuntimeError as error:
            # On the CPU running out is a RuntimeError like any other.
            if size == 1 or not (isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)):
                raise
            size = max(1, size // 2)
            continue
        if not torch.isfinite(found).all():
            raise NonFiniteError(
                f"The model's logits are not finite at length {length} of {task.name}. "
                "Its weights or activations overflowed: lower training.lr, or test shorter lengths."
            )
        judged = narrow(piece, last)
        correct += right(found, judged, task).sum().item()
        # Strings may be asked unequally much: a mean over all that is asked does not depend on the pieces.
        weight = int(asked(judged, task).sum())
        losses, weights = losses + float(loss(found, judged, task)) * weight, weights + weight
        at += len(piece.tokens)
    return correct, losses / weights


def evaluate(
    tagger: nn.Module,
    task: Task,
    lengths: tuple[int, ...],
    samples: int,
    seed: int,
    *,
    device: torch.device,
    autocast: str = "fp32",
    share: int = 1,
    known: dict[str, float] | None = None,
    after: Callable[[dict[str, float]], None] | None = None,
) -> dict[str, float]:
    """Right strings per length (a string, as in JSON). `known` ones are not tested again; `after` hears each."""
    correct = dict(known or {})
    tagger.eval()
    for length in lengths:
        if str(length) not in correct:
            batch = task.test_set(length, samples, seed)
            correct[str(length)] = count_right(tagger, task, batch, device=device, autocast=autocast, share=share)[0]
            if after:
                after(correct)
    return correct
