"""Where the batches of a training come from; a batch is a function of (seed, step, length) alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ..seeds import generator
from ..tasks.base import Batch, Task
from ..text import packing
from .settings import Training

VALIDATION_LENGTHS = 16


class Data(Protocol):
    lengths: list[int]
    """The possible lengths of a batch."""

    def batch(self, seed: int, step: int, length: int) -> Any:
        """The training batch of a step, on the CPU."""

    def validation(self, seed: int) -> Sequence[Any]:
        """The batches to validate on; none where there is no text apart from training and test."""
        ...


class TaskStrings:
    """Strings drawn from a task."""

    def __init__(self, task: Task, training: Training):
        self.task, self.training = task, training
        self.lengths = task.lengths(*training.curriculum.lengths)

    def batch(self, seed: int, step: int, length: int) -> Batch:
        draw, count = generator("train", seed, step), self.training.batch
        odd = round(count * self.training.curriculum.varied)
        parts = [self.task.sample(length, count - odd, draw)] if odd < count else []
        parts += [self.task.sample_varied(length, odd, draw)] if odd else []
        return parts[0] if len(parts) == 1 else Batch(*map(torch.cat, zip(*parts, strict=True)))

    def validation(self, seed: int) -> list[Batch]:
        """Lengths spread over the training range, seeded apart from training and test."""
        stride = max(1, len(self.lengths) // VALIDATION_LENGTHS)
        lengths = self.lengths[::-1][::stride][:VALIDATION_LENGTHS]
        each = max(1, self.training.checkpointing.validation_samples // len(lengths))
        return [self.task.sample(n, each, generator("validation", seed, n)) for n in lengths]


class TextBlocks:
    """Blocks (N, T) of a text, every one once an epoch; those (n, T) of other documents are validated on."""

    def __init__(self, train: Tensor, training: Training, validation: Tensor | None = None):
        self.train, self.training, self.held_out = train, training, validation
        self.lengths = [train.shape[1]]

    def batch(self, seed: int, step: int, length: int) -> Tensor:
        return packing.batch(self.train, step, self.training.batch, seed)

    def validation(self, seed: int) -> list[Tensor]:
        return [] if self.held_out is None else [self.held_out]
