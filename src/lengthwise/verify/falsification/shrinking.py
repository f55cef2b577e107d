"""From a word that a model gets wrong to a shorter one, by delta debugging: leave out blocks while it stays wrong.

What is right is asked anew of every shorter word, so that it is wrong in its own right. First come prefixes and
suffixes, for a long word may fail by its length alone; then blocks of half the word, of a quarter, … and of single
symbols, all blocks of a size at once. Where none is left that can go, the symbols of the word are made alike.

Shapes: B words, T tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

Wrong = Callable[[np.ndarray], np.ndarray]
"""(B,T) words -> (B,) booleans: which are asked something and answered wrong."""
OVERLAPPING, SHORT = 8, 1024
"""Blocks up to this size, of words up to this length, are left out wherever they begin, as single symbols always are;
others where a whole number of them stands before."""
AT_ONCE = 1 << 18
"""Tokens of candidates that are made at a time."""


def shrink(word: np.ndarray, wrong: Wrong, until: float = np.inf) -> np.ndarray:
    """The shortest wrong word that was found by leaving out blocks of `word` (T,); none is tried after `until`.

    >>> has_a_run = lambda words: np.array(["111" in "".join(map(str, word)) for word in words.tolist()])
    >>> shrink(np.array([0, 1, 0, 1, 1, 1, 1, 0]), has_a_run).tolist()
    [1, 1, 1]
    """
    word = _ends(word, wrong, until)
    size = len(word) // 2
    while size:
        shorter = _first(_without(word, size), wrong, until)
        if shorter is not None:
            word = shorter
            size = min(size, len(word) // 2)
        elif time.monotonic() > until:
            return word
        elif size == 1:
            break
        else:
            size //= 2
    return _plainer(word, wrong, until)


def _ends(word: np.ndarray, wrong: Wrong, until: float) -> np.ndarray:
    """The shortest wrong prefix or suffix among those of 1, 2, 4, 8, … symbols and their neighbours."""
    lengths = {2**k + d for k in range(len(word).bit_length()) for d in (-1, 0, 1)}
    for n in sorted(n for n in lengths if 0 < n < len(word)):
        first = _first(iter([np.stack([word[:n], word[-n:]])]), wrong, until)
        if first is not None:
            return first
    return word


def _without(word: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """The word without each block of this size, (B, T - size), in parts."""
    T, step = len(word), 1 if size <= OVERLAPPING and len(word) <= SHORT else size
    if size == T:
        return
    starts = np.arange(0, T - size + 1, step)
    places = np.arange(T - size)
    rows = max(1, AT_ONCE // T)
    for i in range(0, len(starts), rows):
        # What stands behind the block moves up by its size.
        yield word[places + size * (places >= starts[i : i + rows, None])]


def _plainer(word: np.ndarray, wrong: Wrong, until: float) -> np.ndarray:
    """As many symbols as possible are those that stand before them."""
    for t in range(1, len(word)):
        if word[t] != word[t - 1]:
            plainer = word.copy()
            plainer[t] = word[t - 1]
            word = word if (first := _first(iter([plainer[None]]), wrong, until)) is None else first
    return word


def _first(candidates: Iterator[np.ndarray], wrong: Wrong, until: float) -> np.ndarray | None:
    for words in candidates:
        if time.monotonic() > until:
            return None
        failing = wrong(words)
        if failing.any():
            return words[int(failing.argmax())]
    return None
