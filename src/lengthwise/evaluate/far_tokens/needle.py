"""Needles in a haystack: a line of the prompt tells a key's number, and the prompt ends by asking for it.

    … The secret number of quiet-harbour is 4821907. …  The secret number of quiet-harbour is        4821907

The prompt has exactly the wanted number of tokens. The number stands in it as often as it was put there, which is
looked up in the written text; it was put there once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Annotated, ClassVar, Literal

from torch import Tensor

from ...errors import Error
from ...options import at_least, check_fields
from . import haystack
from .haystack import Encoder, FactQuestion, RandomWords, Tokens

MOST = 100
"""Keys, numbers of a key and questions."""


@dataclass(frozen=True)
class Needle:
    """A needle: what is hidden, in what, and how much of it is asked."""

    keys: Annotated[int, at_least(1, at_most=MOST), "How many keys are hidden."] = 1
    values: Annotated[int, at_least(1, at_most=MOST), "How many numbers each key has, a line for each."] = 1
    queries: Annotated[int, at_least(1, at_most=MOST), "How many keys are asked, each in a prompt of its own."] = 1
    haystack: Annotated[
        Literal["text", "repeated", "needles"],
        "What lies around: the documents' text, one line repeated, or lines of keys that nobody asks for.",
    ] = "text"
    name: ClassVar[str] = "needle"
    lies_at_depth: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self, "needle: ")
        if self.queries > self.keys:
            raise Error(
                f"needle: queries are of different keys, got {self.queries} of {self.keys}. Use keys={self.queries} or "
                "more."
            )

    @property
    def right(self) -> int:
        """The number of right answers."""
        return self.values

    @property
    def reads_text(self) -> bool:
        """True if the haystack is made of documents."""
        return self.haystack == "text"

    @property
    def prompt(self) -> str:
        """The sentence that tells the fact, and the one that asks for it."""
        return f"{_said('KEY')} NUMBER.".strip() + " … " + _said("KEY").strip()

    def source(self, encode: Encoder, text: Iterable[str] | Tensor, pool: int, writes: bool) -> Needles:
        """Where questions are drawn from, with text of about `pool` tokens. `writes`: the model writes its answers."""
        text = [haystack.DULL] if self.haystack == "repeated" else text
        return Needles(
            self, encode, [] if self.haystack == "needles" else haystack.pieces_of(text, encode, pool), writes
        )


class Needles:
    def __init__(self, wanted: Needle, encode: Encoder, pieces: list[Tokens], writes: bool):
        self.wanted, self.encode, self.pieces = wanted, encode, pieces
        self.numbers = RandomWords(encode, _said("x"), haystack.number(7))
        self.width = self.numbers.width
        self.asking = "\nAll the secret numbers of {} are" if writes and wanted.values > 1 else _said("{}")

    def _fact(self, key: str, value: str) -> Tokens:
        return self.encode(_said(key)) + self.numbers.tokens(value) + self.encode(".\n")

    def draw(self, tokens: int, depth: float | None, choices: int, random: Random) -> list[FactQuestion]:
        """A question for each query, in prompts of so many tokens; none where text says by chance what is hidden.

        The needle that is asked, or the first of several, lies at the depth; the others lie anywhere.
        """
        names, known = haystack.keys(self.wanted.keys, random), set[str]()
        values = {key: [self.numbers.new(random, known) for _ in range(self.wanted.values)] for key in names}
        facts = {key: [(random.random(), self._fact(key, value)) for value in values[key]] for key in names}
        ids = {key: self.encode(self.asking.format(key)) for key in names[: self.wanted.queries]}
        taken = len(self.encode.begin) + sum(len(fact) for each in facts.values() for _, fact in each)
        hay, straw = self._hay(random, known, names)
        pieces = haystack.fill(hay, haystack.room(tokens, taken + min(map(len, ids.values()))))
        questions = []
        for key, question in ids.items():
            own = [(at if depth is None or i else depth, fact) for i, (at, fact) in enumerate(facts[key])]
            placed = [each for other in names if other != key for each in facts[other]] + own
            prompt = haystack.prompt_of(self.encode, iter(pieces), placed, question, tokens)
            text = self.encode.write(prompt)
            if text.count(key) != self.wanted.values + 1 or any(text.count(value) != 1 for value in values[key]):
                return []
            near = [value for other in names if other != key for value in values[other]]
            near = random.sample(near, len(near)) + [value for value in straw if value in text]
            false = self.numbers.others(near, choices - self.wanted.values, random, known)
            questions.append(FactQuestion(prompt, [*map(self.numbers.tokens, values[key])], false, values[key]))
        return questions

    def _hay(self, random: Random, known: set[str], names: list[str]) -> tuple[Iterator[Tokens], list[str]]:
        """Pieces without an end, and the numbers that these hide: there are more with every piece that is taken."""
        straw: list[str] = []
        if self.wanted.haystack != "needles":
            return haystack.from_anywhere(self.pieces, random), straw

        def others() -> Iterator[Tokens]:
            while True:
                if (key := haystack.keys(1, random)[0]) not in names:
                    straw.append(self.numbers.new(random, known))
                    yield self._fact(key, straw[-1])

        return others(), straw


def _said(key: str) -> str:
    return f"\nThe secret number of {key} is"
