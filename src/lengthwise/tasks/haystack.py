"""Facts lost in what does not matter, and a question about them at the end.

    f3 f0 k2 v5 f1 f1 f9 k7 v0 f4 ? k2                         needle: the value 5 at the last place
    f1 n2 = v5 f0 f7 n4 = v1 n9 = n2 f3 n0 = n4 f2 ? n9        variable tracking: the value 5 at the last place

A needle is a key and its value. Around them lies noise, a row of symbols repeated, or other needles, whose keys nobody
asks for. With several values a key is in as many needles, each with another value, and the answer is the set of them.
With several queries several keys follow the question mark, and each is to be answered where it stands.

A chain of variables assigns a value to a name, and then h times the name before to a new one; statements of different
chains stand in between. Asked is the value of the last name of one chain, h hops away; or, given a value, which names
have it.

Shapes: B batch, T tokens, S symbols of each kind; n facts of w tokens each, h pieces of hay of v tokens each. Of
needles K keys of m values each, q queries; of variables C chains, h hops, N = C (h+1) statements.
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
from .base import ScoringOption, Task

QUESTION = 0
Hay = Literal["noise", "repeated"]
HayOption = Annotated[Hay, "What lies around the facts: symbols drawn at random, or one row of them again and again."]


def hay(kind: Hay, batch: int, tokens: int, symbols: int, generator: torch.Generator) -> Tensor:
    """(B, h, 1) symbols of 0..symbols-1."""
    if kind == "noise":
        return torch.randint(symbols, (batch, tokens, 1), generator=generator)
    return (torch.arange(tokens) % symbols)[:, None].repeat(batch, 1, 1)


def some(count: int, of: int, batch: int, generator: torch.Generator) -> Tensor:
    """(B, count) different numbers of 0..of-1 in random order."""
    return torch.rand(batch, of, generator=generator).argsort(1)[:, :count]


def hide(facts: Tensor, hay: Tensor, generator: torch.Generator) -> Tensor:
    """(B, n w + h v) the facts (B, n, w) whole and in their order, at places in the hay (B, h, v) that are all alike.

    >>> facts, generator = torch.tensor([[[7, 8], [5, 6]]]), torch.Generator().manual_seed(0)
    >>> hide(facts, torch.zeros(1, 3, 1, dtype=torch.long), generator)
    tensor([[0, 0, 7, 8, 5, 6, 0]])
    """
    (B, n, w), (_, h, v) = facts.shape, hay.shape
    # n of n + h things in a row are facts; each fact before a thing moves it by w - v.
    starts = v * some(n, n + h, B, generator).sort(1).values + (w - v) * torch.arange(n)
    places = (starts[:, :, None] + torch.arange(w)).flatten(1)
    tokens = torch.empty(B, n * w + h * v, dtype=torch.long)
    free = torch.ones_like(tokens, dtype=torch.bool).scatter_(1, places, torch.zeros_like(places, dtype=torch.bool))
    tokens[free] = hay.flatten()
    return tokens.scatter_(1, places, facts.flatten(1))


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
            noise = 1 + hay(self.haystack, B, tokens - 2 * n, self.symbols, generator)
            return hide(needles, noise, generator)
        others = torch.randint(self.symbols - self.keys, (B, tokens // 2 - n), generator=generator)
        for key in keys.sort(1).values.unbind(1):
            others += others >= key[:, None]
        values = torch.randint(self.symbols, others.shape, generator=generator)
        straw = torch.stack([others + self.first_key, values + self.first_value], 2)
        # A symbol of noise makes up an odd number of tokens.
        odd = 1 + hay("noise", B, tokens % 2, self.symbols, generator)
        return torch.cat([odd.flatten(1), hide(needles, straw, generator)], 1)

    def asked(self, tokens: Tensor) -> Tensor:
        T = tokens.shape[1]
        return (torch.arange(T, device=tokens.device) >= T - self.queries).expand_as(tokens)

    def answer(self, tokens: Tensor) -> Tensor:
        """(B, T) the value, or (B, T, S) which values, at the last places; 0 or none before them."""
        self.check_tokens(tokens)
        self.check(tokens.shape[1])
        B, T, q, S = *tokens.shape, self.queries, self.symbols
        text, questions = tokens[:, : T - 1 - q], tokens[:, T - q :]
        sound = (
            (questions >= self.first_key) & (questions < self.first_value) & (tokens[:, T - q - 1, None] == QUESTION)
        )
        self.check_strings(sound, f"a string ends with ? and {q} of the keys")
        value = text[:, 1:] - self.first_value
        values = torch.zeros(B, q, S, dtype=torch.bool)
        for query in range(q):
            row, at = ((text[:, :-1] == questions[:, query, None]) & (value >= 0)).nonzero(as_tuple=True)
            values[row, query, value[row, at]] = True
        form = f"a key that is asked has {self.values} different values in its string"
        self.check_strings(values.sum(2) == self.values, form)
        answers = values if self.kind == "set" else values.long().argmax(2)
        before = answers.new_zeros(B, T - q, *answers.shape[2:])
        return torch.cat([before, answers], 1)

    def baseline(self, length: int) -> float:
        self.check(length)
        return math.comb(self.symbols, self.values) ** -(self.queries if self.scoring == "every" else 1)


EQUALS = 1
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
        facts = torch.stack([names, torch.full_like(names, EQUALS), sources], 3).flatten(1, 2)
        # Every chain is given places at random, and its statements take them in their order.
        place = some(N, N, batch, generator).unflatten(1, (C, -1)).sort(2).values.flatten(1)
        text = torch.empty_like(facts).scatter_(1, place[:, :, None].expand_as(facts), facts)
        noise = 2 + hay(self.haystack, batch, length - WORDS * N - 2, S, generator)
        subject = names[:, 0, -1:] if self.question == "value" else values[:, :1]
        return torch.cat([hide(text, noise, generator), torch.full((batch, 1), QUESTION), subject], 1)

    def answer(self, tokens: Tensor) -> Tensor:
        """(B, T) the value, or (B, T, S) which names, at the last place; 0 or none before it."""
        B, T = tokens.shape
        value = self._values(tokens)
        if self.question == "value":
            answers = value.gather(1, tokens[:, -1:] - self.first_name)
            self.check_strings(answers >= 0, "a name that is asked has a value in its string")
        else:
            answers = (value == tokens[:, -1:] - self.first_value)[:, None]
        return torch.cat([answers.new_zeros(B, T - 1, *answers.shape[2:]), answers], 1)

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
        right_kind = is_name if self.question == "value" else is_value
        ends = (tokens[:, -2] == QUESTION) & right_kind[:, -1]
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
