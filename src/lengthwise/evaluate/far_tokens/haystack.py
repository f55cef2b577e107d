"""Haystacks of tokens: pieces of text one after another, with facts put between them at wanted depths.

A piece is a sentence or a line: tokens up to one that ends a segment (`text.segment_ends`). So a fact never breaks a
sentence, and only the last piece is cut, that a prompt has exactly the tokens it is to have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, chain, cycle
from random import Random
from typing import Any

from torch import Tensor

from ...errors import Error, LengthError
from ...text import segment_ends

Tokens = list[int]

DULL = "\nThe rain falls on the hills. The river runs to the sea. Nobody is at home. The road is long and dry.\n"
"""What is said again and again in a repeated haystack."""


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


def room(tokens: int, taken: int) -> int:
    """How many tokens of a prompt are left for the haystack."""
    if taken > tokens:
        raise LengthError(
            f"A prompt must hold its facts and its question, here {taken:,} tokens, and has {tokens:,} before the "
            "answer. Ask for longer prompts, or for fewer facts."
        )
    return tokens - taken
