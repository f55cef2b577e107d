"""The words of Boxes, each one token. "." and "," are words too, and "The" is another word than "the".

The vocabulary is GLUE, then the letters of the boxes, then the objects in alphabetical order, so that sorting objects
by token sorts them by name.
"""

from __future__ import annotations

import re

from ...errors import Error

PAD, STOP, COMMA = 0, 1, 2
GLUE = (
    *("<pad>", ".", ","),
    *("The", "the", "There", "there", "is", "are", "in", "nothing", "Box", "and"),
    *("Move", "contents", "of", "from", "to", "Put", "into", "Remove", "contains", "empty"),
)
"""All words but the names of boxes and objects: the same in every form and for all sizes."""
GLUE_ID = {word: i for i, word in enumerate(GLUE)}
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NAMES = """
    apple bag ball basket bell bill bone book boot bottle bowl bread brush bucket cake camera candle card chain chalk
    cheese cigarette clock coat coin comb computer cord cream crown cup dish disk doll drug drum egg engine fan feather
    file flag flower fork game gift glass glove guitar hammer hat helmet honey ice jar key knife lamp leaf letter lock
    machine magazine magnet map mask medal milk mirror needle newspaper note painting pen phone picture pillow plant
    plate pot radio ribbon ring rope rose scarf sheet shirt shoe soap sponge spoon stamp stone string tea television
    ticket watch wire
"""
OBJECTS = tuple(NAMES.split())
"""The names of objects; a task with fewer uses the first of them."""


def full_vocabulary(boxes: int, objects: int) -> tuple[str, ...]:
    """The word of every token, with so many boxes and objects."""
    return (*GLUE, *LETTERS[:boxes], *OBJECTS[:objects])


def split_words(text: str) -> list[str]:
    """The words and marks of a text.

    >>> split_words("Put the tea into Box A.")
    ['Put', 'the', 'tea', 'into', 'Box', 'A', '.']
    """
    return re.findall(r"[^\s.,]+|[.,]", text)


def join_words(parts: list[str]) -> str:
    """Words and marks as text: no space before a mark."""
    return "".join(part if part in ".," else " " + part for part in parts).removeprefix(" ")


def token_ids(text: str, known: dict[str, int]) -> list[int]:
    """The tokens of a text; `known` maps words to tokens."""
    try:
        return [known[word] for word in split_words(text)]
    except KeyError as unknown:
        raise Error(
            f"boxes: every word must be in the vocabulary, got {unknown.args[0]!r}. "
            "Use the words of `task.vocabulary`; more boxes or objects have more."
        ) from None
