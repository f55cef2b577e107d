"""Tasks whose symbols are free: every token is drawn on its own, uniformly or with given symbol probabilities.

Shapes: B batch, T tokens, S symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np
import torch
from torch import Tensor

from ..automata import Semiautomaton, walk
from ..errors import Error
from .base import Task, choice

SUPERVISION = ("last", "prefix")


class FreeTask(Task):
    """Base of the tasks with free symbols. A subclass calls `setup` and defines `answer`."""

    weights: np.ndarray
    """(S,) symbol probabilities."""
    ground: Semiautomaton
    """`machine`, which here is never None."""
    classes: Tensor
    """`readout`, which here is never None."""

    def setup(
        self,
        name: str,
        machine: Semiautomaton,
        readout: Tensor,
        supervision: str,
        probabilities: Sequence[float] | None,
    ) -> None:
        self.name = name
        self.vocabulary = machine.symbols
        self.machine = self.ground = machine
        self.readout = self.classes = readout
        self.outputs = int(readout.max()) + 1
        self.supervision = choice("supervision", supervision, SUPERVISION)  # pyright: ignore[reportAttributeAccessIssue]
        self.uniform = probabilities is None
        self.weights = symbol_weights(name, self.vocabulary, probabilities)
        self.params = {"supervision": supervision, "probabilities": None if self.uniform else self.weights.tolist()}

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        return draw_symbols(length, batch, generator, len(self.vocabulary), None if self.uniform else self.weights)

    def baseline(self, length: int) -> float:
        self.check(length)
        *_, pi = walk(self.ground, repeat(self.weights, length))
        return float(np.bincount(self.classes.numpy(), weights=pi).max())


def symbol_weights(task: str, vocabulary: Sequence[str], probabilities: Sequence[float] | None) -> np.ndarray:
    """(S,) probabilities, checked and brought to sum 1; uniform for None.

    >>> symbol_weights("t", "ab", [0.3333333, 0.6666664]).sum().item()
    1.0
    """
    S = len(vocabulary)
    if probabilities is None:
        return np.full(S, 1.0 / S)
    weights = np.array(probabilities, dtype=np.float64)
    if weights.shape != (S,) or not (weights >= 0).all() or abs(weights.sum() - 1) > 1e-6:
        raise Error(
            f"{task}: probabilities must be {S} numbers of at least 0 that sum to 1, one for each of "
            f"{', '.join(vocabulary)}; got {list(probabilities)}."
        )
    # Multiplied n times, an error in the sum grows with n. One of rounding alone stays: the probabilities that a task
    # records must come back as they are, since its test strings are drawn by them.
    rounding = S * np.finfo(np.float64).eps
    return weights if abs(weights.sum() - 1) <= rounding else weights / weights.sum()


def draw_symbols(
    length: int, batch: int, generator: torch.Generator, symbols: int, weights: np.ndarray | None = None
) -> Tensor:
    """(batch, length) independent symbols, uniform or with these probabilities."""
    if weights is None:
        return torch.randint(symbols, (batch, length), generator=generator)
    # Edges reach 1 exactly, and draws stay below it, so a symbol of probability 0 never appears.
    edges = torch.from_numpy(np.cumsum(weights) / weights.sum())[:-1]
    draws = torch.rand(batch, length, generator=generator, dtype=torch.float64)
    return torch.bucketize(draws, edges, right=True)
