"""Words to try on a model, pattern after pattern; every one ends where the claim asks something.

A pattern is any row of symbols (`patterns.py`), which is then fitted to the machine: a symbol after which no question
can come any more at this length gives way to one after which it can. Where every state is asked nothing has to.

Shapes: B words, T tokens, Q states, S symbols.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from ...seeds import derive
from ..claim import Claim
from .patterns import PATTERNS
from .reading import end_states

FITTED = 1 << 14
"""Longer words that must be fitted repeat a part of a word of this length."""
AT_ONCE = 1 << 14
"""Of all words of a length, so many are made at a time."""


class Words:
    """The words of one claim."""

    def __init__(self, claim: Claim):
        self.claim, self.machine = claim, claim.machine
        self.symbols, self.free = claim.machine.num_symbols, bool(claim.asked.all())

    @cached_property
    def reach(self) -> tuple[np.ndarray, int]:
        """(K,Q) whether a question can come exactly k symbols later, and the row at which they begin to repeat.

        reach[0] = asked,  reach[k](q) = some symbol s has reach[k-1](δ(q,s))
        """
        rows = [self.claim.asked]
        seen = {rows[0].tobytes(): 0}
        while True:
            row = np.asarray(rows[-1][self.machine.delta].any(axis=1))
            if row.tobytes() in seen:
                return np.array(rows), seen[row.tobytes()]
            seen[row.tobytes()] = len(rows)
            rows.append(row)

    def _row(self, k: int) -> int:
        """The row of `reach` that says what can come k symbols later."""
        rows, again = self.reach
        return k if k < len(rows) else again + (k - again) % (len(rows) - again)

    def possible(self, length: int) -> bool:
        """True if any word of this length ends where something is asked."""
        return length >= 1 and bool(self.reach[0][self._row(length)][self.machine.start])

    def nearest(self, length: int) -> int | None:
        """The longest possible length up to this one; None where there is none near it."""
        return next((n for n in range(length, max(0, length - 1 - len(self.reach[0])), -1) if self.possible(n)), None)

    def asked(self, words: np.ndarray) -> np.ndarray:
        """(B,) booleans: which of the (B,T) words end where something is asked."""
        return self.claim.asked[end_states(self.machine, words)]

    def all(self, length: int) -> Iterator[np.ndarray]:
        """Every word of this length that ends where something is asked, in parts, in the order of their symbols."""
        count = self.symbols**length
        places = self.symbols ** np.arange(length - 1, -1, -1)
        for first in range(0, count, AT_ONCE):
            numbers = np.arange(first, min(count, first + AT_ONCE))
            words = numbers[:, None] // places % self.symbols
            yield words[self.asked(words)]

    def patterns(self, length: int, rows: int, draw: int) -> Iterator[np.ndarray]:
        """(B,T) of about this length, at most `rows` of each pattern; `draw` numbers the draws of what is random."""
        rng = np.random.default_rng(derive("falsify", self.machine.to_json(), length, draw))
        short = self.nearest(length if self.free else min(length, FITTED))
        if short is None:
            return
        for pattern in PATTERNS:
            words = pattern(self.machine, short, rows, rng)
            if len(words) and not self.free:
                words = self.fit(words)
            if short == length or length - short < len(self.reach[0]):
                yield from [words] if len(words) else []
            else:
                # They differ in length from here on.
                yield from (self.stretch(word, length)[None] for word in words)

    def fit(self, rows: np.ndarray) -> np.ndarray:
        """The (B,T) words nearest to these rows of symbols; T is a possible length."""
        T = rows.shape[1]
        words, state = np.empty_like(rows), np.full(len(rows), self.machine.start)
        for t in range(T):
            words[:, t] = self._allowed[self._row(T - t - 1)][state, rows[:, t]]
            state = self.machine.delta[state, words[:, t]]
        return words

    @cached_property
    def _allowed(self) -> np.ndarray:
        """(K,Q,S) the symbol that stands for another, where the word ends k symbols after it."""
        rows, _ = self.reach
        table = np.empty((len(rows), *self.machine.delta.shape), dtype=np.intp)
        symbols = np.arange(self.symbols)
        for k, row in enumerate(rows):
            for q, after in enumerate(row[self.machine.delta]):
                possible = np.flatnonzero(after)
                # Those that are possible stay; the others are spread over them.
                table[k, q] = np.where(after, symbols, possible[symbols % len(possible)]) if len(possible) else symbols
        return table

    def stretch(self, word: np.ndarray, length: int) -> np.ndarray:
        """A word that leads to the same state and is about as long as this: a loop of the word is repeated in it."""
        states = self.machine.run(word[None])[0].numpy()
        visits = np.flatnonzero(states == np.bincount(states).argmax())
        if len(visits) < 2 or length <= len(word):
            return word
        loop = word[visits[0] + 1 : visits[-1] + 1]
        times = 1 + (length - len(word)) // len(loop)
        return np.concatenate([word[: visits[0] + 1], np.tile(loop, times), word[visits[-1] + 1 :]])
