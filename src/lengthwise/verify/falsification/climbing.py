"""Hill climbing on the margin: change the words that a model gets right by the least, and keep what lowers the margin.

Shapes: B words, T tokens, S symbols.
"""

from __future__ import annotations

import numpy as np

MOST = 24
"""How many words are climbed from."""
LONGEST = 4096
"""Longer words take too much time for what one step can win."""


class Lowest:
    """The words of the least margins so far, no two alike."""

    def __init__(self):
        self.words: dict[bytes, tuple[float, np.ndarray]] = {}

    def add(self, words: np.ndarray, margins: np.ndarray) -> None:
        if not words.shape[1] <= LONGEST:
            return
        for i in np.argsort(margins)[:MOST]:
            self.words[words[i].tobytes()] = (float(margins[i]), words[i])
        lowest = sorted(self.words.items(), key=lambda each: each[1][0])
        self.words = dict(lowest[:MOST])

    def pick(self, rng: np.random.Generator) -> np.ndarray | None:
        """One of them, the lowest most often."""
        words = [word for _, word in self.words.values()]
        return words[min(rng.geometric(0.25), len(words)) - 1] if words else None


def changed(word: np.ndarray, symbols: int, rows: int, rng: np.random.Generator) -> np.ndarray:
    """(B, about T) changed copies, all of one length: the word's, or one that is longer or shorter by a block."""
    T = len(word)
    size = int(min(rng.geometric(0.2), T, 64))
    kind = rng.integers(4)
    words = np.repeat(word[None], rows, 0)
    starts = rng.integers(T - size + 1, size=rows)
    if kind == 0 and size < T:
        kept = np.arange(T - size)
        return word[kept + size * (kept >= starts[:, None])]
    if kind == 1 and T + size <= LONGEST:
        # A block comes twice.
        index = np.arange(T + size)
        return word[index - size * (index >= starts[:, None] + size)]
    for row, start in zip(words, starts, strict=True):
        match rng.integers(4):
            case 0:
                row[start : start + size] = rng.integers(symbols)
            case 1:
                source = rng.integers(T - size + 1)
                row[start : start + size] = word[source : source + size]
            case 2:
                row[start : start + size] = rng.permutation(row[start : start + size])
            case _:
                places = rng.integers(T, size=rng.integers(1, 4))
                row[places] = rng.integers(symbols, size=len(places))
    return words
