"""The words of Boxes, each one token. "." and "," are words too, and "The" is another word than "the".

The vocabulary is GLUE, then the letters of the boxes, then the objects in alphabetical order, so that sorting objects
by token sorts them by name.
"""

from __future__ import annotations

from collections.abc import Iterable

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


def join_words(words: Iterable[str]) -> str:
    """Words and marks as text: no space before a mark."""
    return "".join(word if word in ".," else " " + word for word in words).removeprefix(" ")
