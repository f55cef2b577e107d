"""Selective copying: symbols among blanks, to be said again in their order and without the blanks.

    tokens   . b . . a . c |  .   .   .          n symbols among blanks, a bar, n blanks
    answers                   b   a   c          at the last n places: the first symbol, the second, …

Each blank before the bar falls before one of the n symbols, each alike; so the last symbol touches the bar.

Shapes: B batch, T tokens, n symbols to copy.
"""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from ..limits import CLASSES
from ..options import at_least
from .base import ScoringOption, Task


class SelectiveCopy(Task):
    """Symbols among blanks and a bar; after it the symbols are to be said in their order.

    >>> from lengthwise import tasks
    >>> task = tasks.get("selective-copy", symbols=3, copied=2)
    >>> tokens = torch.tensor([[3, 1, 3, 3, 0, 4, 3, 3]])
    >>> task.write(tokens[0]), task.answer(tokens)
    ('. s1 . . s0 | . .', tensor([[0, 0, 0, 0, 0, 0, 1, 0]]))
    """

    supervision = "prefix"

    def __init__(
        self,
        symbols: Annotated[int, at_least(2, at_most=CLASSES), "How many different symbols can be copied."] = 14,
        copied: Annotated[int, at_least(1, at_most=CLASSES), "How many symbols a string has to copy."] = 16,
        scoring: ScoringOption = "mean",
    ):
        self.name = "selective-copy"
        self.symbols = self.outputs = symbols
        self.copied, self.scoring = copied, scoring
        self.blank, self.bar = symbols, symbols + 1
        self.vocabulary = (*(f"s{i}" for i in range(symbols)), ".", "|")
        self.shortest = 2 * copied + 1

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        n, blanks = self.copied, length - 2 * self.copied - 1
        symbols = torch.randint(self.symbols, (batch, n), generator=generator)
        before = torch.randint(n, (batch, blanks), generator=generator)
        counts = torch.zeros(batch, n, dtype=torch.long).scatter_add_(1, before, torch.ones_like(before))
        places = counts.cumsum(1) + torch.arange(n)
        text = torch.full((batch, n + blanks), self.blank).scatter_(1, places, symbols)
        return torch.cat([F.pad(text, (0, 1), value=self.bar), torch.full((batch, n), self.blank)], 1)

    def asked(self, tokens: Tensor) -> Tensor:
        T = tokens.shape[1]
        return (torch.arange(T, device=tokens.device) >= T - self.copied).expand_as(tokens)

    def answer(self, tokens: Tensor) -> Tensor:
        """(B, T) the symbols in their order at the last places; 0 before them."""
        self.check_tokens(tokens)
        self.check(tokens.shape[1])
        n, is_symbol = self.copied, tokens < self.symbols
        bar, blanks = tokens[:, -n - 1] == self.bar, tokens[:, -n:] == self.blank
        sound = (is_symbol.sum(1) == n) & bar & blanks.all(1)
        self.check_strings(sound, f"a string has {n} symbols to copy, and ends with a bar and {n} blanks")
        answers = torch.zeros_like(tokens)
        answers[:, -n:] = tokens[is_symbol].view(-1, n)
        return answers

    def baseline(self, length: int) -> float:
        self.check(length)
        return self.symbols ** -(self.copied if self.scoring == "every" else 1)
