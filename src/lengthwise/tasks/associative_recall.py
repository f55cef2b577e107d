"""Multi-query associative recall (MQAR): which value belonged to this key?

    tokens   k_1 v_1 … k_K v_K   then pairs of places; K of these begin with a key again, each key once
    answers                      at such a place: the value beside that key at the start

The V tokens are a blank 0, keys 1..V/2-1 and values V/2..V-1; keys and values of a string are distinct. The K places
are drawn without replacement from g = 1, 2, … with probability proportional to g^(power-1), so that a small power asks
most keys soon after the pairs, as text repeats its bigrams, and power 1 asks anywhere.

Shapes: B batch, T tokens, K pairs, V symbols, G places that a key can be asked at.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor

from ..errors import Error
from ..options import above, at_least
from .base import ScoringOption, Task

MOST_SYMBOLS = 100_000


class AssociativeRecall(Task):
    """Pairs of a key and a value, then the keys again, far apart; at each of these the answer is its value.

    >>> from lengthwise import tasks
    >>> task = tasks.get("mqar", symbols=12, pairs=2)
    >>> tokens = torch.tensor([[2, 8, 4, 7, 0, 0, 4, 0, 0, 0, 2, 0]])
    >>> task.write(tokens[0]), task.label(tokens).mask.int(), task.answer(tokens)
    ('k2 v2 k4 v1 . . k4 . . . k2 .',
     tensor([[0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0]], dtype=torch.int32),
     tensor([[0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0]]))
    """

    supervision = "prefix"

    def __init__(
        self,
        symbols: Annotated[
            int,
            at_least(4, at_most=MOST_SYMBOLS),
            "How many tokens there are: half are values, one is the blank, the others keys.",
        ] = 64,
        pairs: Annotated[int, at_least(1, at_most=MOST_SYMBOLS), "How many pairs a string begins with."] = 4,
        power: Annotated[float, above(0, at_most=1), "How early keys are asked: 1 anywhere, near 0 soon."] = 0.01,
        filler: Annotated[
            Literal["blank", "random"], "What stands between the questions: a blank, or any token that is no question."
        ] = "blank",
        scoring: ScoringOption = "mean",
    ):
        self.name = "mqar"
        if symbols % 2:
            raise Error(f"{self.name}: symbols must be even, half of them values, got {symbols}. Use {symbols + 1}.")
        if pairs > symbols // 2 - 1:
            raise Error(
                f"{self.name}: pairs need as many keys, and {symbols} symbols have {symbols // 2 - 1}, got {pairs}. "
                f"Use symbols={2 * pairs + 2} or more."
            )
        self.symbols, self.pairs, self.power, self.filler, self.scoring = symbols, pairs, power, filler, scoring
        self.first_value = self.outputs = symbols // 2
        keys, values = range(1, symbols // 2), range(symbols // 2)
        self.vocabulary = (".", *(f"k{i}" for i in keys), *(f"v{i}" for i in values))

    def problem(self, length: int) -> str | None:
        shortest = 4 * self.pairs
        if length >= shortest and length % 2 == 0:
            return None
        use = shortest if length < shortest else length + 1
        return f"length must be even and at least {shortest} (pairs, and two for a question), got {length}. Use {use}."

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        K, half = self.pairs, self.first_value
        keys = 1 + torch.rand(batch, half - 1, generator=generator).argsort(1)[:, :K]
        values = half + torch.rand(batch, half, generator=generator).argsort(1)[:, :K]
        tokens = self._filling(keys, length, generator)
        tokens[:, : 2 * K] = torch.stack([keys, values], 2).flatten(1)
        return tokens.scatter_(1, 2 * K + 2 * self._places(length // 2 - K, batch, generator), keys)

    def _places(self, count: int, batch: int, generator: torch.Generator) -> Tensor:
        """(B, K) of 0..G-1, drawn one after another without replacement.

        The K least of Exponential(1) / p are such a draw, in its order.
        """
        p = torch.arange(1, count + 1, dtype=torch.float64) ** (self.power - 1)
        waits = -torch.log1p(-torch.rand(batch, count, generator=generator, dtype=torch.float64)) / p
        return waits.topk(self.pairs, largest=False).indices

    def _filling(self, keys: Tensor, length: int, generator: torch.Generator) -> Tensor:
        """(B, T) blanks, or tokens that are none of the string's keys: a key in the filling would be a question."""
        if self.filler == "blank":
            return torch.zeros(len(keys), length, dtype=torch.long)
        tokens = torch.randint(self.symbols - self.pairs, (len(keys), length), generator=generator)
        for key in keys.sort(1).values.unbind(1):
            tokens += tokens >= key[:, None]
        return tokens

    def _table(self, tokens: Tensor) -> Tensor:
        """(B, V) the value of each token, -1 where it is none of the string's keys."""
        self.check_tokens(tokens)
        self.check(tokens.shape[1])
        keys, values = tokens[:, : 2 * self.pairs].unflatten(1, (self.pairs, 2)).unbind(2)
        values = values - self.first_value
        wrong = (keys < 1) | (keys >= self.first_value) | (values < 0)
        self.check_strings(~wrong, f"a string begins with {self.pairs} pairs of a key and a value")
        self.check_strings(keys.sort(1).values.diff(dim=1) > 0, "the keys of a string's pairs differ")
        return tokens.new_full((len(tokens), self.symbols), -1).scatter_(1, keys, values)

    def asked(self, tokens: Tensor) -> Tensor:
        known = self._table(tokens).gather(1, tokens) >= 0
        known[:, : 2 * self.pairs] = False
        return known

    def answer(self, tokens: Tensor) -> Tensor:
        """(B, T) the value of the key at each asked place, counted from 0; 0 elsewhere."""
        return self._table(tokens).gather(1, tokens) * self.asked(tokens)

    def baseline(self, length: int) -> float:
        self.check(length)
        if self.scoring == "every" and self.pairs > 1:
            return 0.0  # the values of a string are distinct
        return 1 / self.outputs
