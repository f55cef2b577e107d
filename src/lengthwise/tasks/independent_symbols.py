"""Tasks over all words: each symbol is drawn independently, uniformly or with given probabilities.

Shapes: B batch, T tokens, S symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from ..automata import Semiautomaton
from ..errors import Error
from .base import Supervision, Task

ProbabilitiesOption = Annotated[
    Sequence[float] | None, "How probable each symbol is, in the order of the vocabulary; None: equally."
]


class IndependentSymbols(Task):
    """Base of the tasks whose symbols are drawn independently. A subclass calls `setup` and defines `answer`.

    The answer after a prefix is the `readout` of the state in which the prefix leaves `machine`.
    """

    weights: np.ndarray
    """(S,) symbol probabilities."""
    machine: Semiautomaton
    readout: Tensor

    def setup(
        self,
        name: str,
        machine: Semiautomaton,
        readout: Tensor,
        supervision: Supervision,
        probabilities: Sequence[float] | None,
    ) -> None:
        self.name = name
        self.vocabulary = machine.symbols
        self.machine = machine  # pyright: ignore[reportIncompatibleVariableOverride]
        self.readout = readout  # pyright: ignore[reportIncompatibleVariableOverride]
        self.outputs = int(readout.max()) + 1
        self.supervision = supervision
        self.weights = symbol_weights(name, self.vocabulary, probabilities)
        self.probabilities = None if probabilities is None else self.weights.tolist()

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        weights = None if self.probabilities is None else self.weights
        return draw_symbols(length, batch, generator, len(self.vocabulary), weights)

    def baseline(self, length: int) -> float:
        self.check(length)
        *_, pi = self.machine.state_probabilities(repeat(self.weights, length))
        return float(np.bincount(self.readout.numpy(), weights=pi).max())


def symbol_weights(task: str, vocabulary: Sequence[str], probabilities: Sequence[float] | None) -> np.ndarray:
    """(S,) the probabilities, checked and scaled to the sum 1; None gives uniform ones.

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
    # An error in the sum grows with the length. Errors of mere rounding are left alone, because the probabilities
    # that a task records must come back unchanged: its test strings are drawn with them.
    rounding = S * np.finfo(np.float64).eps
    return weights if abs(weights.sum() - 1) <= rounding else weights / weights.sum()


def draw_symbols(
    length: int, batch: int, generator: torch.Generator, symbols: int, weights: np.ndarray | None = None
) -> Tensor:
    """(batch, length) independent symbols, uniform or with these probabilities."""
    if weights is None:
        return torch.randint(symbols, (batch, length), generator=generator)
    # The last edge is exactly 1 and draws stay below it, so a symbol of probability 0 never appears.
    edges = torch.from_numpy(np.cumsum(weights) / weights.sum())[:-1]
    draws = torch.rand(batch, length, generator=generator, dtype=torch.float64)
    return torch.bucketize(draws, edges, right=True)
