"""Chains of assignments hidden in a prompt: which names have this value, be it by other names?

    … Set QWERT to 48219. … Set ASDFG to QWERT. …  The names set to 48219 are                  QWERT, ASDFG

The prompt has exactly the wanted number of tokens, and says of its names and values no more than was put there, which
is looked up in the written text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Annotated, ClassVar

from torch import Tensor

from ...options import at_least, check_fields
from . import haystack
from .haystack import Encoder, FactQuestion, RandomWords, Tokens

MOST = 100


@dataclass(frozen=True)
class Variables:
    """Chains of variables: how many, and how long each is; one of them is asked."""

    chains: Annotated[int, at_least(1, at_most=MOST), "How many chains of assignments there are."] = 2
    hops: Annotated[int, at_least(0, at_most=MOST), "How many names take the value of the one before."] = 4
    name: ClassVar[str] = "variables"
    lies_at_depth: ClassVar[bool] = False
    reads_text: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self, "variables: ")

    @property
    def right(self) -> int:
        return self.hops + 1

    @property
    def prompt(self) -> str:
        """The sentences that tell the facts, and the one that asks for them."""
        return "Set NAME to VALUE. … The names set to VALUE are"

    def source(self, encode: Encoder, text: Iterable[str] | Tensor, pool: int, writes: bool) -> Chains:
        return Chains(self, encode, haystack.pieces_of(text, encode, pool))


class Chains:
    def __init__(self, wanted: Variables, encode: Encoder, pieces: list[Tokens]):
        self.wanted, self.encode, self.pieces = wanted, encode, pieces
        self.names = RandomWords(encode, "\nThe names set to 48219 are", haystack.letters(5))
        self.numbers = RandomWords(encode, "\nSet QWERT to", haystack.number(5))
        self.width = self.names.width

    def draw(self, tokens: int, depth: float | None, choices: int, random: Random) -> list[FactQuestion]:
        """One question, in a prompt of so many tokens; none where the text says by chance what is hidden."""
        known: set[str] = set()
        chains = [
            [self.names.new(random, known) for _ in range(self.wanted.hops + 1)] for _ in range(self.wanted.chains)
        ]
        values = [self.numbers.new(random, known) for _ in chains]
        facts = []
        for value, names in zip(values, chains, strict=True):
            depths = sorted(random.random() for _ in names)
            sentences = [f"\nSet {name} to {source}.\n" for name, source in zip(names, [value, *names], strict=False)]
            facts += zip(depths, map(self.encode, sentences), strict=True)
        question = self.encode(f"\nThe names set to {values[0]} are")
        prompt = haystack.prompt_of(self.encode, haystack.from_anywhere(self.pieces, random), facts, question, tokens)
        text = self.encode.write(prompt)
        # Every name but the last of a chain is said twice: where it is set, and where another is set to it.
        expected = {name: 2 - (name == names[-1]) for names in chains for name in names}
        expected |= {value: 1 + (value == values[0]) for value in values}
        if any(text.count(word) != count for word, count in expected.items()):
            return []
        near = [name for names in chains[1:] for name in names]
        false = self.names.others(random.sample(near, len(near)), choices - self.wanted.right, random, known)
        return [FactQuestion(prompt, [*map(self.names.tokens, chains[0])], false, chains[0])]
