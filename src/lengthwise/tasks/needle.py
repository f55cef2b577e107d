"""Needles in a haystack: facts "this key has this value", lost in what does not matter, and a question at the end.

    f3 f0 k2 v5 f1 f1 f9 k7 v0 f4 ? k2        the answer at the last place: v5

A needle is a key and its value. Around them lies noise, a row of symbols repeated, or other needles, whose keys nobody
asks for. With several values a key is in as many needles, each with another value, and the answer is the set of them.
With several queries several keys follow the question mark, and each is to be answered where it stands.

Shapes: B batch, T tokens, K keys of m values each, q queries, S symbols of each kind.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from torch import Tensor

from ..errors import Error
from ..limits import CLASSES
from ..options import at_least
from .base import ScoringOption, Task
from .haystack import hay, hide, some

QUESTION, FIRST_NOISE = 0, 1


class HiddenPairs(Task):
    """Keys with their values, hidden in a haystack; the answer is the value of the key that is asked at the end.

    >>> from lengthwise import tasks
    >>> task = tasks.get("needle", symbols=4, keys=2)
    >>> tokens = torch.tensor([[1, 7, 10, 3, 2, 5, 12, 0, 7]])
    >>> task.write(tokens[0]), int(task.answer(tokens)[0, -1])
    ('f0 k2 v1 f2 f1 k0 v3 ? k2', 1)
    """

    def __init__(
        self,
        keys: Annotated[int, at_least(1, at_most=CLASSES), "How many keys are hidden."] = 1,
        values: Annotated[int, at_least(1, at_most=CLASSES), "How many values each key has, a needle for each."] = 1,
        queries: Annotated[int, at_least(1, at_most=CLASSES), "How many of the keys are asked."] = 1,
        haystack: Annotated[
            Literal["noise", "repeated", "needles"],
            "What lies around the needles: random symbols, a row of them repeated, or needles that nobody asks for.",
        ] = "noise",
        symbols: Annotated[
            int, at_least(2, at_most=CLASSES), "How many different keys, values and symbols of noise there are."
        ] = 16,
        scoring: ScoringOption = "mean",
    ):
        self.name = "needle"
        S = symbols
        self.keys, self.values, self.queries = keys, values, queries
        self.haystack: Literal["noise", "repeated", "needles"] = haystack
        self.symbols = symbols
        # One question alone is the last place's: a model need not say anything at the others.
        self.scoring, self.supervision = (scoring, "prefix") if queries > 1 else ("last", "last")
        spare = keys + (haystack == "needles")
        if spare > S or values > S:
            raise Error(
                f"needle: a string needs {spare} different keys and {values} different values, and there are {S} of "
                f"each. Use symbols={max(spare, values)} or more."
            )
        if queries > keys:
            raise Error(f"needle: queries are of different keys, got {queries} of {keys}. Use keys={queries} or more.")
        self.outputs, self.first_key, self.first_value = S, 1 + S, 1 + 2 * S
        self.kind = "class" if values == 1 else "set"
        self.vocabulary = ("?", *(f"{kind}{i}" for kind in "fkv" for i in range(S)))
        self.params = {"keys": keys, "values": values, "queries": queries, "haystack": haystack}
        self.params |= {"symbols": symbols, "scoring": scoring}
        self.shortest = 2 * keys * values + 1 + queries

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        K, m, q, S = self.keys, self.values, self.queries, self.symbols
        keys = some(K, S, batch, generator)
        values = torch.rand(batch, K, S, generator=generator).argsort(2)[:, :, :m]
        pairs = torch.stack([keys[:, :, None].expand(-1, -1, m), values], -1).flatten(1, 2)
        order = some(K * m, K * m, batch, generator)
        needles = pairs.gather(1, order[:, :, None].expand(-1, -1, 2)) + torch.tensor(
            [self.first_key, self.first_value]
        )
        text = self._hidden(needles, keys, length - 1 - q, generator)
        mark = torch.full((batch, 1), QUESTION)
        return torch.cat([text, mark, keys[:, :q] + self.first_key], 1)

    def _hidden(self, needles: Tensor, keys: Tensor, tokens: int, generator: torch.Generator) -> Tensor:
        """(B, tokens) the needles in their haystack; `keys` are those of a string."""
        B, n, _ = needles.shape
        if self.haystack != "needles":
            noise = FIRST_NOISE + hay(self.haystack, B, tokens - 2 * n, self.symbols, generator)
            return hide(needles, noise, generator)
        others = torch.randint(self.symbols - self.keys, (B, tokens // 2 - n), generator=generator)
        for key in keys.sort(1).values.unbind(1):
            others += others >= key[:, None]
        values = torch.randint(self.symbols, others.shape, generator=generator)
        straw = torch.stack([others + self.first_key, values + self.first_value], 2)
        # A symbol of noise makes up an odd number of tokens.
        odd = FIRST_NOISE + hay("noise", B, tokens % 2, self.symbols, generator)
        return torch.cat([odd.flatten(1), hide(needles, straw, generator)], 1)

    def asked(self, tokens: Tensor) -> Tensor:
        T = tokens.shape[1]
        return (torch.arange(T, device=tokens.device) >= T - self.queries).expand_as(tokens)

    def answer(self, tokens: Tensor) -> Tensor:
        """(B, T) the value, or (B, T, S) which values, at the last places; 0 or none before them."""
        self.check_tokens(tokens)
        self.check(tokens.shape[1])
        B, T, q, S = *tokens.shape, self.queries, self.symbols
        text, asked = tokens[:, : T - 1 - q], tokens[:, T - q :]
        sound = (asked >= self.first_key) & (asked < self.first_value) & (tokens[:, T - q - 1, None] == QUESTION)
        self.check_strings(sound, f"a string ends with ? and {q} of the keys")
        value = text[:, 1:] - self.first_value
        found = torch.zeros(B, q, S, dtype=torch.bool)
        for query in range(q):
            row, at = ((text[:, :-1] == asked[:, query, None]) & (value >= 0)).nonzero(as_tuple=True)
            found[row, query, value[row, at]] = True
        form = f"a key that is asked has {self.values} different values in its string"
        self.check_strings(found.sum(2) == self.values, form)
        said = found if self.kind == "set" else found.long().argmax(2)
        before = said.new_zeros(B, T - q, *said.shape[2:])
        return torch.cat([before, said], 1)

    def baseline(self, length: int) -> float:
        self.check(length)
        return math.comb(self.symbols, self.values) ** -(self.queries if self.scoring == "every" else 1)
