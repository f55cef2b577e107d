"""Tasks over all words: each symbol is drawn independently, uniformly or with given probabilities.

    parity             y_t = (s_1 + … + s_t) mod 2
    even-pairs         y_t = [s_1 = s_t]
    cycle-navigation   y_t = Σ (0, +1, −1)[s_i] mod size
    modular-sum        y_t = (s_1 + … + s_t) mod M
    machine            y_t = the state after s_1 … s_t

Shapes: B batch, T tokens, S symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from ..automata import Semiautomaton
from ..errors import Error
from ..limits import CLASSES, PLACES
from ..options import Inherited, at_least
from .base import SupervisionOption, Task

ProbabilitiesOption = Annotated[
    Sequence[float] | None, "How probable each symbol is, in the order of the vocabulary; None: equally."
]


class IndependentSymbols(Task):
    """Base of the tasks whose symbols are drawn independently. A subclass has a machine and defines `answer`.

    The answer after a prefix is the `readout` of the state in which the prefix leaves `machine`.
    """

    weights: np.ndarray
    """(S,) symbol probabilities."""
    machine: Semiautomaton
    readout: Tensor

    def __init__(
        self,
        name: str,
        machine: Semiautomaton,
        readout: Tensor,
        params: dict[str, Any],
        supervision: SupervisionOption = "last",
        probabilities: ProbabilitiesOption = None,
    ):
        self.name = name
        self.vocabulary = machine.symbols
        self.machine = machine  # pyright: ignore[reportIncompatibleVariableOverride]
        self.readout = readout  # pyright: ignore[reportIncompatibleVariableOverride]
        self.outputs = int(readout.max()) + 1
        self.supervision = supervision
        self.weights = symbol_weights(name, self.vocabulary, probabilities)
        self.probabilities = None if probabilities is None else self.weights.tolist()
        self.params = {**params, "supervision": supervision, "probabilities": self.probabilities}

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        if self.probabilities is None:
            return torch.randint(len(self.vocabulary), (batch, length), generator=generator)
        # The last edge is exactly 1 and draws stay below it, so a symbol of probability 0 never appears.
        edges = torch.from_numpy(np.cumsum(self.weights) / self.weights.sum())[:-1]
        draws = torch.rand(batch, length, generator=generator, dtype=torch.float64)
        return torch.bucketize(draws, edges, right=True)

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


class Parity(IndependentSymbols):
    """Bits; the answer is the number of 1s so far, modulo 2.

    >>> from lengthwise import tasks
    >>> task = tasks.get("parity", supervision="prefix")
    >>> tokens = torch.tensor([[0, 1, 1, 0, 1, 1, 1]])
    >>> tokens, task.answer(tokens)
    (tensor([[0, 1, 1, 0, 1, 1, 1]]),
     tensor([[0, 1, 0, 0, 1, 0, 1]]))
    """

    def __init__(self, **shared: Inherited):
        super().__init__("parity", Semiautomaton([[0, 1], [1, 0]], accepting={1}), torch.arange(2), {}, **shared)

    def answer(self, tokens: Tensor) -> Tensor:
        self.check_tokens(tokens)
        return tokens.cumsum(1) & 1


class EvenPairs(IndependentSymbols):
    """Any symbols (two, or M for EvenPair(M)); the answer is 1 where the symbol equals the first one, else 0.

    With two symbols this is whether 01 and 10 together occur an even number of times, which gave the task its name.

    >>> from lengthwise import tasks
    >>> task = tasks.get("even-pairs", symbols=5, supervision="prefix")
    >>> tokens = torch.tensor([[3, 4, 3, 1, 3]])
    >>> tokens, task.answer(tokens)
    (tensor([[3, 4, 3, 1, 3]]),
     tensor([[1, 0, 1, 0, 1]]))
    """

    def __init__(
        self,
        symbols: Annotated[int, at_least(2, at_most=CLASSES), "How many different symbols there are."] = 2,
        **shared: Inherited,
    ):
        S = self.symbols = symbols
        # State 0 has seen nothing; state 1 + 2f + e began with f and stands on an equal symbol iff e = 1.
        first, now = torch.arange(S)[:, None], torch.arange(S)
        after = 1 + 2 * first + (first == now).long()
        machine = Semiautomaton(torch.cat([2 + 2 * now[None], after.repeat_interleave(2, 0)]))
        super().__init__("even-pairs", machine, torch.tensor([0] + [0, 1] * S), {"symbols": symbols}, **shared)

    def answer(self, tokens: Tensor) -> Tensor:
        self.check_tokens(tokens)
        return (tokens == tokens[:, :1]).long()


class CycleNavigation(IndependentSymbols):
    """Moves 0: stay, 1: one step on, 2: one step back; the answer is the place, from place 0.

    >>> from lengthwise import tasks
    >>> task = tasks.get("cycle-navigation", supervision="prefix")
    >>> tokens = torch.tensor([[0, 1, 0, 2, 1, 1]])
    >>> tokens, task.answer(tokens)
    (tensor([[0, 1, 0, 2, 1, 1]]),
     tensor([[0, 1, 1, 0, 1, 2]]))
    """

    def __init__(
        self,
        size: Annotated[int, at_least(2, at_most=PLACES), "How many places the ring has."] = 5,
        **shared: Inherited,
    ):
        self.size = size
        place = torch.arange(size)
        machine = Semiautomaton(torch.stack([place, (place + 1) % size, (place - 1) % size], 1))
        super().__init__("cycle-navigation", machine, place, {"size": size}, **shared)

    def answer(self, tokens: Tensor) -> Tensor:
        self.check_tokens(tokens)
        # 0, 1, 2 -> 0, 1, -1
        return (tokens - 3 * (tokens >> 1)).cumsum(1) % self.size


class ModularSum(IndependentSymbols):
    """Digits 0..M-1; the answer is their sum so far, modulo M.

    >>> from lengthwise import tasks
    >>> task = tasks.get("modular-sum", modulus=5, supervision="prefix")
    >>> tokens = torch.tensor([[3, 4, 0, 1, 2]])
    >>> tokens, task.answer(tokens)
    (tensor([[3, 4, 0, 1, 2]]),
     tensor([[3, 2, 2, 3, 0]]))
    """

    def __init__(
        self,
        modulus: Annotated[
            int, at_least(2, at_most=CLASSES), "How many digits there are, and what their sum is taken modulo."
        ] = 5,
        **shared: Inherited,
    ):
        self.modulus = modulus
        digit = torch.arange(modulus)
        machine = Semiautomaton((digit[:, None] + digit) % modulus)
        super().__init__("modular-sum", machine, digit, {"modulus": modulus}, **shared)

    def answer(self, tokens: Tensor) -> Tensor:
        self.check_tokens(tokens)
        return tokens.cumsum(1) % self.modulus


class MachineStates(IndependentSymbols):
    """Any symbols; the answer is the state of the machine.

    >>> from lengthwise import tasks
    >>> switch = Semiautomaton([[0, 1, 0], [1, 1, 0]])  # keep, on, off
    >>> task = tasks.from_machine(switch, supervision="prefix")
    >>> tokens = torch.tensor([[0, 1, 0, 2, 1]])
    >>> tokens, task.answer(tokens)
    (tensor([[0, 1, 0, 2, 1]]),
     tensor([[0, 1, 1, 0, 1]]))
    """

    def __init__(self, machine: Semiautomaton, **shared: Inherited):
        params = {**machine.to_json(), "protocol": "states"}
        super().__init__("machine", machine, torch.arange(machine.num_states), params, **shared)

    def answer(self, tokens: Tensor) -> Tensor:
        return self.machine.run(tokens)
