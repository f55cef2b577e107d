"""Parity: is the number of 1s odd?  y_t = (s_1 + … + s_t) mod 2."""

from __future__ import annotations

import torch
from torch import Tensor

from ..automata import Semiautomaton
from .base import SupervisionOption
from .independent_symbols import IndependentSymbols, ProbabilitiesOption


class Parity(IndependentSymbols):
    """Bits; the answer is the number of 1s so far, modulo 2.

    >>> from lengthwise import tasks
    >>> task = tasks.get("parity", supervision="prefix")
    >>> tokens = torch.tensor([[0, 1, 1, 0, 1, 1, 1]])
    >>> tokens, task.answer(tokens)
    (tensor([[0, 1, 1, 0, 1, 1, 1]]),
     tensor([[0, 1, 0, 0, 1, 0, 1]]))
    """

    def __init__(self, supervision: SupervisionOption = "last", probabilities: ProbabilitiesOption = None):
        machine = Semiautomaton([[0, 1], [1, 0]], accepting={1})
        self.setup("parity", machine, torch.arange(2), supervision, probabilities)

    def answer(self, tokens: Tensor) -> Tensor:
        self.check_tokens(tokens)
        return tokens.cumsum(1) & 1
