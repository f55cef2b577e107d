"""The search itself: what is read in which order, and when the time for it is over.

1. All words of 1, 2, 3, … symbols, for a little of the time.
2. Patterns of words (patterns.py) at lengths that double, with their neighbours, up to a million where the model can.
3. By turns, until the time is over: hill climbing on the margin, further draws at all lengths, and more of all words.

The first wrong word is read once more alone, shrunk (shrinking.py), and read alone again before it is answered. Words
are functions of the claim and of how many were drawn before them; how far they get in the time depends on the machine.

Hill climbing changes the words that the model gets right by the least, and keeps what lowers the margin.

Shapes: B words, T tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ...seeds import derive
from ..verdict import Refuted
from .reading import Reader, too_long
from .shrinking import shrink
from .words import Words

ALL_SHARE, GROWING_SHARE, SEARCH_SHARE = 0.05, 0.5, 0.9
"""The shares of the time at whose end a first look at all words, growing lengths, and the search are over. The rest is
kept for making a late find shorter."""
TOKENS = 1 << 17
"""About how many tokens of a pattern are read at a length."""
ROWS = 96
"""At most so many words of a pattern are."""
MANY = 1 << 40
"""So many words of one length are not numbered."""
LOWEST = 24
"""How many words are climbed from."""
CLIMBED = 4096
"""Longer words take too much time for what one step can win."""


class Stage(NamedTuple):
    """The stage of the search, for those who watch it."""

    doing: str
    share: float
    """Of its time that is over."""


Watcher = Callable[[Stage], None]


class Wrong(Exception):
    """A word was wrong, also when it was read alone."""

    def __init__(self, word: np.ndarray, refuted: Refuted):
        self.word, self.refuted = word, refuted


class Hunt:
    """One search: what it has read so far, and what it found."""

    def __init__(self, reader: Reader, seconds: float, longest: int, watch: Watcher):
        self.reader, self.words, self.longest, self.watch = reader, Words(reader.claim), longest, watch
        self.began, self.seconds = time.monotonic(), seconds
        self.strings, self.exact, self.read_to = 0, 0, 0
        self.by_length: dict[int, float] = {}
        self.lowest = Lowest()
        self.stopped: str | None = None
        self.draws = 0
        self.refuted: Refuted | None = None
        self.seen: int | None = None
        self.enumeration = self._all()

    def at(self, share: float) -> float:
        return self.began + share * self.seconds

    def tell(self, doing: str) -> None:
        self.watch(Stage(doing, min(1.0, (time.monotonic() - self.began) / self.seconds)))

    def run(self) -> None:
        try:
            self.all_words(self.at(ALL_SHARE))
            self.growing(self.at(GROWING_SHARE))
            self.by_turns(self.at(SEARCH_SHARE))
        except Wrong as wrong:
            self.seen = len(wrong.word)
            self.tell(f"a failure at {self.seen:,} token{'s' * (self.seen != 1)}, which is made shorter")
            self.refuted = self.shortest(wrong)

    def read(self, words: np.ndarray, until: float) -> int:
        """Read (B,T) words; how many there was time for."""
        answers = self.reader.read(words, until)
        count, T = len(answers.wrong), words.shape[1]
        if not count:
            return 0
        self.strings, self.read_to = self.strings + count, max(self.read_to, T)
        for i in np.flatnonzero(answers.wrong):
            if refuted := self.reader.alone(words[i]):
                raise Wrong(words[i], refuted)
        self.by_length[T] = min(self.by_length.get(T, np.inf), float(answers.margins.min()))
        self.lowest.add(words[:count], answers.margins)
        return count

    def reached(self, error: Exception, length: int) -> None:
        """Note that the model reads no words of this length, or raise what else went wrong."""
        if length == 1 or not too_long(error):
            raise error
        self.stopped, self.longest = str(error), min(self.longest, length - 1)

    def all_words(self, until: float) -> None:
        """Go on with all words, where the last time ended."""
        for length in self.enumeration:
            self.tell(f"all strings of {length:,} symbol{'s' * (length != 1)}")
            if time.monotonic() > until:
                return

    def _all(self) -> Iterator[int]:
        """Reads all words, shorter ones first; the length it is at, after every part of them."""
        length = 0
        while length < self.longest and self.words.symbols ** (length + 1) <= MANY:
            length += 1
            for words in self.words.all(length):
                at = 0
                while at < len(words):
                    try:
                        # There is always time for a part, so that some words are read whatever the budget is.
                        at += self.read(words[at : at + self.reader.in_a_second(length)], np.inf)
                    except Exception as error:
                        self.reached(error, length)
                        return
                    yield length
                yield length
            self.exact = length

    def growing(self, until: float) -> None:
        """Lengths that double, and their neighbours, until the next is too long for the time or the model."""
        length = 4
        while length < self.longest:
            length = min(2 * length, self.longest)
            self.tell(f"patterns of strings at {length:,} symbols")
            for near, rows in ((length, ROWS), (length - 1, 4), (length + 1, 4)):
                if near <= self.longest and not self.at_length(near, rows, until):
                    return

    def at_length(self, length: int, rows: int, until: float) -> bool:
        """Read words of each pattern at a length; whether a longer one can be tried."""
        if self.reader.expected(length) > (until - time.monotonic()) / 4:
            return False
        self.draws += 1
        end = time.monotonic() + (until - time.monotonic()) / 3
        for words in self.words.patterns(length, max(1, min(rows, TOKENS // length)), self.draws):
            if time.monotonic() > end:
                break
            try:
                self.read(words, end)
            except Exception as error:
                self.reached(error, length)
                return False
        return True

    def by_turns(self, until: float) -> None:
        rng = np.random.default_rng(derive("falsify", "by turns", self.words.machine.to_json()))
        powers = [2**k for k in range(3, 21) if 2**k <= self.longest] or [self.longest]
        while time.monotonic() < until:
            self.tell(f"hill climbing, further draws and more of all strings, {self.strings:,} so far")
            turn = self.seconds / 40
            self.climb(rng, min(until, time.monotonic() + turn))
            self.at_length(int(rng.integers(1, 1 + rng.choice(powers))), ROWS, min(until, time.monotonic() + 3 * turn))
            self.all_words(min(until, time.monotonic() + turn))

    def climb(self, rng: np.random.Generator, until: float) -> None:
        while time.monotonic() < until:
            word = self.lowest.pick(rng)
            if word is None:
                return
            words = changed(word, self.words.symbols, max(1, min(ROWS, TOKENS // len(word))), rng)
            words = words[self.words.asked(words)]
            if len(words) and words.shape[1] <= self.longest:
                self.read(words, until)

    def shortest(self, wrong: Wrong) -> Refuted:
        """The shortest wrong word found in what is left of the time; each that is taken is wrong alone."""
        best = wrong.refuted

        def still_wrong(words: np.ndarray) -> np.ndarray:
            nonlocal best
            failures = np.zeros(len(words), dtype=bool)
            asked = np.flatnonzero(self.words.asked(words))
            answers = self.reader.read(words[asked])
            for i in asked[np.flatnonzero(answers.wrong)]:
                if refuted := self.reader.alone(words[i]):
                    best, failures[i] = refuted, True
                    break
            return failures

        shrink(wrong.word, still_wrong, self.at(1.0))
        return best


class Lowest:
    """The words of the least margins so far, no two alike."""

    def __init__(self):
        self.words: dict[bytes, tuple[float, np.ndarray]] = {}

    def add(self, words: np.ndarray, margins: np.ndarray) -> None:
        if not words.shape[1] <= CLIMBED:
            return
        for i in np.argsort(margins)[:LOWEST]:
            self.words[words[i].tobytes()] = (float(margins[i]), words[i])
        lowest = sorted(self.words.items(), key=lambda each: each[1][0])
        self.words = dict(lowest[:LOWEST])

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
        rest = np.arange(T - size)
        return word[rest + size * (rest >= starts[:, None])]
    if kind == 1 and T + size <= CLIMBED:
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
