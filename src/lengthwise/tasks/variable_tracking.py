"""Variable tracking: chains of assignments, lost in noise, and a question that only following the chain answers.

    f1 n2 = v5 f0 f7 n4 = v1 n9 = n2 f3 n0 = n4 f2 ? n9        the answer at the last place: v5

Each chain assigns a value to a name, and then h times the name before to a new one; statements of different chains
stand in between. Asked is the value of the last name of one chain, h hops away; or, given a value, which names have it.

Shapes: B batch, T tokens, C chains, h hops, N = C (h+1) statements, S symbols of each kind.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import Error
from ..limits import CLASSES
from ..options import at_least
from .base import Task
from .haystack import Hay, HayOption, hay, hide, some

QUESTION, EQUALS = 0, 1
WORDS = 3
"""A statement has so many tokens: a name, =, and a value or a name."""


class VariableTracking(Task):
    """Assignments of values to names and of names to names, in noise; the answer is a name's value at the end.

    >>> from lengthwise import tasks
    >>> task = tasks.get("variable-tracking", symbols=4, chains=2, hops=1)
    >>> tokens = torch.tensor([[2, 7, 1, 13, 6, 1, 10, 8, 1, 7, 9, 1, 6, 0, 8]])
    >>> task.write(tokens[0]), int(task.answer(tokens)[0, -1])
    ('f0 n1 = v3 n0 = v0 n2 = n1 n3 = n0 ? n2', 3)
    """

    def __init__(
        self,
        chains: Annotated[int, at_least(1, at_most=CLASSES), "How many chains of assignments there are."] = 2,
        hops: Annotated[int, at_least(0, at_most=CLASSES), "How many names take the value of the one before."] = 2,
        question: Annotated[
            Literal["value", "names"], "Whether a name's value is asked, or all the names that have a value."
        ] = "value",
        haystack: HayOption = "noise",
        symbols: Annotated[
            int, at_least(2, at_most=CLASSES), "How many different names, values and symbols of noise there are."
        ] = 16,
    ):
        self.name = "variable-tracking"
        S = symbols
        self.chains, self.hops, self.question = chains, hops, question
        self.haystack: Hay = haystack
        self.symbols = symbols
        self.statements = chains * (hops + 1)
        if self.statements > S:
            raise Error(
                f"{self.name}: {chains} chains of {hops} hops have {self.statements} names, and there are {S}. "
                f"Use symbols={self.statements} or more."
            )
        self.outputs, self.first_name, self.first_value = S, 2 + S, 2 + 2 * S
        self.kind = "class" if question == "value" else "set"
        self.vocabulary = ("?", "=", *(f"{kind}{i}" for kind in "fnv" for i in range(S)))
        self.shortest = WORDS * self.statements + 2

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        C, N, S = self.chains, self.statements, self.symbols
        names = some(N, S, batch, generator).unflatten(1, (C, -1)) + self.first_name
        values = some(C, S, batch, generator) + self.first_value
        sources = torch.cat([values[:, :, None], names[:, :, :-1]], 2)
        said = torch.stack([names, torch.full_like(names, EQUALS), sources], 3).flatten(1, 2)
        # Every chain is given places at random, and its statements take them in their order.
        place = some(N, N, batch, generator).unflatten(1, (C, -1)).sort(2).values.flatten(1)
        text = torch.empty_like(said).scatter_(1, place[:, :, None].expand_as(said), said)
        noise = 2 + hay(self.haystack, batch, length - WORDS * N - 2, S, generator)
        asked = names[:, 0, -1:] if self.question == "value" else values[:, :1]
        return torch.cat([hide(text, noise, generator), torch.full((batch, 1), QUESTION), asked], 1)

    def answer(self, tokens: Tensor) -> Tensor:
        """(B, T) the value, or (B, T, S) which names, at the last place; 0 or none before it."""
        B, T = tokens.shape
        value = self._values(tokens)
        if self.question == "value":
            said = value.gather(1, tokens[:, -1:] - self.first_name)
            self.check_strings(said >= 0, "a name that is asked has a value in its string")
        else:
            said = (value == tokens[:, -1:] - self.first_value)[:, None]
        return torch.cat([said.new_zeros(B, T - 1, *said.shape[2:]), said], 1)

    def _values(self, tokens: Tensor) -> Tensor:
        """(B, S) the value of every name, found by following all of them at once; -1 of a name that has none."""
        self._check_form(tokens)
        S = self.symbols
        row, at = (tokens == EQUALS).nonzero(as_tuple=True)
        # What a name is assigned: names are 0..S-1, values S..2S-1, nothing is 2S. Values and nothing stay themselves.
        source = torch.arange(2 * S + 1).repeat(len(tokens), 1)
        source[:, :S] = 2 * S
        source[row, tokens[row, at - 1] - self.first_name] = tokens[row, at + 1] - self.first_name
        for _ in range(S.bit_length()):
            source = source.gather(1, source)
        last = source[:, :S]
        return torch.where((last >= S) & (last < 2 * S), last - S, -1)

    def _check_form(self, tokens: Tensor) -> None:
        self.check_tokens(tokens)
        self.check(tokens.shape[1])
        is_name = (tokens >= self.first_name) & (tokens < self.first_value)
        is_value, equals = tokens >= self.first_value, tokens == EQUALS
        # A name and "=" stand before what is assigned, which is a name or a value.
        before, after = F.pad(is_name, (1, 0))[:, :-1], F.pad((is_name | is_value)[:, 1:-2], (0, 3))
        asked = is_name if self.question == "value" else is_value
        ends = (tokens[:, -2] == QUESTION) & asked[:, -1]
        form = "a string is statements NAME = NAME or NAME = VALUE among noise, then ? and a "
        form += "name" if self.question == "value" else "value"
        self.check_strings((~equals | (before & after)).all(1) & ends, form)
        row, at = equals.nonzero(as_tuple=True)
        assigned = torch.zeros(len(tokens), len(self.vocabulary), dtype=torch.long)
        assigned.index_put_((row, tokens[row, at - 1]), torch.ones_like(row), accumulate=True)
        self.check_strings(assigned <= 1, "a name is assigned once in a string")

    def baseline(self, length: int) -> float:
        self.check(length)
        return 1 / math.comb(self.symbols, 1 if self.question == "value" else self.hops + 1)
