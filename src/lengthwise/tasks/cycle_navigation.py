"""Cycle navigation: walk on a ring of `size` places; where are you?  y_t = Σ (0, +1, −1)[s_i] mod size."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from ..automata import Semiautomaton
from ..limits import PLACES
from ..options import at_least
from .base import SupervisionOption
from .independent_symbols import IndependentSymbols, ProbabilitiesOption


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
        supervision: SupervisionOption = "last",
        probabilities: ProbabilitiesOption = None,
    ):
        self.size = size
        place = torch.arange(self.size)
        machine = Semiautomaton(torch.stack([place, (place + 1) % size, (place - 1) % size], 1))
        self.setup("cycle-navigation", machine, place, supervision, probabilities)

    def answer(self, tokens: Tensor) -> Tensor:
        self.check_tokens(tokens)
        # 0, 1, 2 -> 0, 1, -1
        return (tokens - 3 * (tokens >> 1)).cumsum(1) % self.size
