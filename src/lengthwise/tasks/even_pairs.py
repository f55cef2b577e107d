"""Even pairs: are the first and the last symbol the same?  y_t = [s_1 = s_t].

With two symbols this is whether 01 and 10 together occur an even number of times, which gave the task its name.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from ..automata import Semiautomaton
from ..limits import CLASSES
from ..options import at_least
from .base import SupervisionOption
from .independent_symbols import IndependentSymbols, ProbabilitiesOption


class EvenPairs(IndependentSymbols):
    """Any symbols (two, or M for EvenPair(M)); the answer is 1 where the symbol equals the first one, else 0.

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
        supervision: SupervisionOption = "last",
        probabilities: ProbabilitiesOption = None,
    ):
        S = self.symbols = symbols
        # State 0 has seen nothing; state 1 + 2f + e began with f and stands on an equal symbol iff e = 1.
        first, now = torch.arange(S)[:, None], torch.arange(S)
        after = 1 + 2 * first + (first == now).long()
        machine = Semiautomaton(torch.cat([2 + 2 * now[None], after.repeat_interleave(2, 0)]))
        self.setup("even-pairs", machine, torch.tensor([0] + [0, 1] * S), supervision, probabilities)

    def answer(self, tokens: Tensor) -> Tensor:
        self.check_tokens(tokens)
        return (tokens == tokens[:, :1]).long()
