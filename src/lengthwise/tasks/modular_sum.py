"""Modular sum, Sum(M): the sum of all digits so far.  y_t = (s_1 + … + s_t) mod M."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from ..automata import Semiautomaton
from ..limits import CLASSES
from ..options import at_least
from .base import SupervisionOption
from .independent_symbols import IndependentSymbols, ProbabilitiesOption


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
        supervision: SupervisionOption = "last",
        probabilities: ProbabilitiesOption = None,
    ):
        M = self.modulus = modulus
        digit = torch.arange(M)
        self.setup("modular-sum", Semiautomaton((digit[:, None] + digit) % M), digit, supervision, probabilities)

    def answer(self, tokens: Tensor) -> Tensor:
        self.check_tokens(tokens)
        return tokens.cumsum(1) % self.modulus
