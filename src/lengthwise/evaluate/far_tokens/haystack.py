"""Haystacks of tokens: pieces of text one after another, with facts put between them at wanted depths; and the random
words of these facts: numbers, names of letters, and keys of two plain words.

A piece is a sentence or a line: tokens up to one that ends a segment (`text.segment_ends`). So a fact never breaks a
sentence, and only the last piece is cut, that a prompt has exactly the tokens it is to have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, chain, cycle
from random import Random
from string import ascii_uppercase
from typing import Any, NamedTuple

from torch import Tensor

from ...errors import Error, LengthError
from ...text import segment_ends

Tokens = list[int]

DULL = "\nThe rain falls on the hills. The river runs to the sea. Nobody is at home. The road is long and dry.\n"
"""What is said again and again in a repeated haystack."""


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


class Encoder:
    """A tokenizer as prompts need it: tokens without special ones, and of a text in its context."""

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer
        begun = self._of("", special=True)[:1]
        self.begin: Tokens = begun if begun and begun[0] == tokenizer.bos_token_id else []
        """What every text begins with, if the tokenizer begins texts at all."""

    def __call__(self, text: str) -> Tokens:
        return self._of(text)

    def _of(self, text: str, special: bool = False) -> Tokens:
        return list(self.tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"])

    def after(self, before: str, text: str) -> Tokens:
        """The tokens of `text` where it follows `before`, as far as the tokenizer keeps the two apart."""
        begin, whole = self(before), self(before + text)
        return whole[len(begin) :] if whole[: len(begin)] == begin else self(text)

    def write(self, tokens: Tokens) -> str:
        return self.tokenizer.decode(tokens, skip_special_tokens=True)


def pieces_of(text: Iterable[str] | Tensor, encode: Encoder, tokens: int) -> list[Tokens]:
    """The first pieces of these documents, or tokens (M,), that have about so many tokens, or all there are."""
    ends, pieces, count = set(segment_ends(encode.tokenizer)), [], 0
    documents = (
        [text[:tokens].tolist()] if isinstance(text, Tensor) else (encode(each.rstrip() + "\n") for each in text)
    )
    for document in documents:
        piece: Tokens = []
        for token in document:
            piece.append(token)
            if token in ends:
                pieces.append(piece)
                piece = []
        pieces += [piece] if piece else []
        count += len(document)
        if count >= tokens:
            break
    if not pieces:
        raise Error("The haystack must be text, and there is none. Give other documents.")
    return pieces


def fill(pieces: Iterator[Tokens], tokens: int) -> list[Tokens]:
    """Pieces with exactly so many tokens, the last of them cut.

    >>> fill(iter([[1, 2], [3, 4, 5], [6]]), 4)
    [[1, 2], [3, 4]]
    """
    taken: list[Tokens] = []
    while tokens > 0:
        taken.append(next(pieces)[:tokens])
        tokens -= len(taken[-1])
    return taken


def insert(pieces: list[Tokens], facts: list[tuple[float, Tokens]]) -> Tokens:
    """The facts (depth, tokens) between pieces, each at the place nearest to its depth: 0 the beginning, 1 the end.

    >>> insert([[1, 1], [2, 2], [3, 3, 3, 3]], [(0.3, [7]), (1.0, [9]), (0.0, [8])])
    [8, 1, 1, 7, 2, 2, 3, 3, 3, 3, 9]
    """
    ends = [0, *accumulate(map(len, pieces))]
    here: list[list[Tokens]] = [[] for _ in ends]
    for depth, fact in sorted(facts, key=lambda fact: fact[0]):
        here[min(range(len(ends)), key=lambda i: abs(ends[i] - depth * ends[-1]))].append(fact)
    parts = chain(here[0], *([piece, *put] for piece, put in zip(pieces, here[1:], strict=True)))
    return list(chain.from_iterable(parts))


def from_anywhere(pieces: list[Tokens], random: Random) -> Iterator[Tokens]:
    """The pieces from one of them on, again and again."""
    start = random.randrange(len(pieces))
    return cycle(pieces[start:] + pieces[:start])


def prompt_of(
    encode: Encoder, hay: Iterator[Tokens], facts: list[tuple[float, Tokens]], question: Tokens, tokens: int
) -> Tokens:
    """A prompt of so many tokens: the facts (depth, tokens) in the hay, and the question."""
    taken = len(encode.begin) + sum(len(fact) for _, fact in facts) + len(question)
    return encode.begin + insert(fill(hay, room(tokens, taken)), facts) + question


def room(tokens: int, taken: int) -> int:
    """Returns how many tokens of a prompt are left for the haystack."""
    if taken > tokens:
        raise LengthError(
            f"A prompt must hold its facts and its question, here {taken:,} tokens, and has {tokens:,} before the "
            "answer. Ask for longer prompts, or for fewer facts."
        )
    return tokens - taken


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
