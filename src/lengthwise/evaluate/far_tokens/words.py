"""Random words that are hidden in prompts and asked for: numbers, names of letters, and keys of two plain words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from string import ascii_uppercase
from typing import NamedTuple

from ...errors import Error
from .haystack import Encoder, Tokens

ADJECTIVES, NOUNS = (
    words.split()
    for words in (
        """ancient amber bitter bold brave bright broken calm clever cold crimson curious dusty early eager faint
fierce frozen gentle golden hollow humble iron jolly late lonely loud lucky mellow narrow noble pale patient proud quiet
rapid silent silver solemn steady tame velvet wild witty young""",
        """anchor basket beacon bridge candle canyon castle copper desert dragon ember falcon feather garden glacier
hammer harbour island jungle kettle ladder lantern meadow mirror mountain needle orchard otter palace pebble pepper
pillow planet rabbit ribbon saddle shadow spider temple thunder tunnel turtle valley violin walnut window""",
    )
)
DRAWS = 1000
"""How often something that must fit is drawn before it is called impossible."""


class FactQuestion(NamedTuple):
    prompt: Tokens
    right: list[Tokens]
    """The answers, which stand in the prompt."""
    wrong: list[Tokens]
    """Others to compare them with, first those that answer other questions about the prompt."""
    answers: list[str]
    """The right answers as written."""


class RandomWords:
    """Random words of one kind that all have the same number of tokens: that which most of them have."""

    def __init__(self, encode: Encoder, before: str, draw: Callable[[Random], str]):
        self.encode, self.before, self.draw = encode, before, draw
        random = Random(0)
        counts = Counter(len(self.tokens(draw(random))) for _ in range(50))
        self.width = counts.most_common(1)[0][0]
        """How many tokens each has."""
        if self.width < 1:
            raise Error("The tokenizer must have tokens for numbers and letters, and it has none. Use another one.")

    def tokens(self, word: str) -> Tokens:
        return self.encode.after(self.before, " " + word)

    def new(self, random: Random, known: set[str]) -> str:
        """One that is not among the known, to which it is added."""
        for _ in range(DRAWS):
            word = self.draw(random)
            if word not in known and len(self.tokens(word)) == self.width:
                known.add(word)
                return word
        raise Error(f"The tokenizer writes too few such words as {self.draw(random)} with {self.width} tokens.")

    def others(self, near: list[str], count: int, random: Random, known: set[str]) -> list[Tokens]:
        """The tokens of so many wrong words: the near ones, then new ones."""
        near = near[:count]
        return [self.tokens(word) for word in near + [self.new(random, known) for _ in range(count - len(near))]]


def number(digits: int) -> Callable[[Random], str]:
    return lambda random: str(random.randrange(10 ** (digits - 1), 10**digits))


def letters(count: int) -> Callable[[Random], str]:
    return lambda random: "".join(random.choices(ascii_uppercase, k=count))


def keys(count: int, random: Random) -> list[str]:
    """Different ones.

    >>> keys(2, Random(0))
    ['late-orchard', 'bitter-harbour']
    """
    drawn: dict[str, None] = {}
    while len(drawn) < count:
        drawn[f"{random.choice(ADJECTIVES)}-{random.choice(NOUNS)}"] = None
    return list(drawn)
