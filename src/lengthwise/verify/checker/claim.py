"""What a certificate claims: a machine, its answers, and the maps of its states that words are.

A word u acts on the states as δ_u, and δ_uv(q) = δ_v(δ_u(q)). All of it is read from the certificate as numbers and
derived again here: which words matter is a question of the machine alone.

    live(u, C)     a state that is reached goes by u to one from which C k more symbols lead to a question, k = 0, 1, …
    opens(u, C)    the start state does
    alike(C)       the number of each state; two have one if no C k symbols lead from them to different answers

A tree of chunk C is aligned at its word's end: each of its nodes covers a part of the word that ends a multiple of C
symbols before it. So in a word that is asked about no node is of a part that is not live, none of a beginning that
does not open, and what a model makes of other parts, no answer depends on. Nor does it on states that are alike, for
behind a node C k symbols come. A recurrence goes by one symbol: C = 1.

Shapes: Q states, S symbols, E outputs, N maps, C chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from .fields import LIST, MOST, TEXT, Rejected, fields, table, whole
from .intervals import Array, Interval

FIELDS = {"symbols": LIST, "delta": LIST, "start": whole(), "answers": LIST, "asked": LIST}


class StatedClaim:
    def __init__(self, content: Any):
        fields("the claim", content, FIELDS)
        self.delta = table(content["delta"], "the claim's delta", 2, len(content["delta"]))
        self.states, self.symbols = Q, S = self.delta.shape
        self.names, self.start = content["symbols"], content["start"]
        if len(self.names) != S or not all(map(TEXT.holds, self.names)) or len(set(self.names)) < S:
            raise Rejected(f"the claim must name its {S} symbols, each in its own way, got {self.names!r:.60}.")
        if self.start >= Q:
            raise Rejected(f"the claim's start must be one of its {Q} states, got {self.start}.")
        self.several = isinstance(content["answers"][0], list)
        self.asked = table(content["asked"], "the claim's asked", 1, 2).astype(bool)
        if len(content["answers"]) != Q or len(self.asked) != Q:
            raise Rejected(f"the claim must have an answer and a question for each of {Q} states.")
        below, least = (2, 0) if self.several else (MOST, -MOST)
        self.answers = table(content["answers"], "the claim's answers", 2 if self.several else 1, below, least)
        if not self.several and (self.answers[self.asked] < 0).any():
            raise Rejected("the claim's answers must be outputs 0, 1, …")
        self.reached = np.arange(Q) == self.start
        while not self.reached[self.delta[self.reached]].all():
            self.reached[self.delta[self.reached].ravel()] = True
        if not self.asked[self.delta[self.reached]].any():
            raise Rejected("the claim is vacuous: after no word is anything asked.")
        self._heeded: dict[int, Array] = {}
        self.heeded = self.heeded_by(1)
        """Whether a question can be reached from a state, or is there."""

    def heeded_by(self, chunk: int) -> Array:
        """(Q,) whether some multiple of `chunk` symbols, 0 too, leads from a state to a question."""
        if chunk not in self._heeded:
            heeded: Array = self.asked
            while True:
                before = heeded
                for _ in range(chunk):
                    before = np.asarray(before[self.delta].any(1))
                if not (before & ~heeded).any():
                    break
                heeded = heeded | before
            self._heeded[chunk] = heeded
        return self._heeded[chunk]

    def alike(self, chunk: int) -> Array:
        """(Q,) begun with what is right in a state, and made finer as long as so many symbols tell states apart."""
        rows = np.where(self.asked.reshape(-1, 1), self.answers.reshape(self.states, -1), 0)
        number = numbered(np.concatenate([self.asked[:, None], rows], 1))
        while True:
            ahead = number
            for _ in range(chunk):
                ahead = numbered(ahead[self.delta])
            finer = numbered(np.stack([number, ahead], 1))
            if finer.max() == number.max():
                return number
            number = finer

    def fits(self, symbols: int, outputs: int) -> None:
        """Raises unless a model of so many symbols and outputs can be what the claim speaks of."""
        if outputs == 1 and not self.several:
            raise Rejected("the claim is vacuous: a model of one output names it after every word.")
        if symbols < self.symbols:
            raise Rejected(f"the model reads {symbols} tokens, and the claim has {self.symbols} symbols.")
        if self.several and self.answers.shape[1] != outputs:
            raise Rejected(f"the model has {outputs} outputs, and the claim speaks of {self.answers.shape[1]}.")
        if not self.several and (self.answers[self.asked] >= outputs).any():
            raise Rejected(f"the model has {outputs} outputs, and the claim names others.")

    def live(self, maps: Array, chunk: int) -> Array:
        """(N,)"""
        return np.asarray(self.heeded_by(chunk)[maps[:, self.reached]].any(1))

    def opens(self, maps: Array, chunk: int) -> Array:
        return self.heeded_by(chunk)[maps[:, self.start]]

    def margins(self, logits: Interval, states: Array) -> Array:
        """(N,) by how much the right answer after each of these states is ahead, at least; infinite where none is
        asked."""
        rows = np.arange(len(states))
        if self.several:
            right = self.answers[states].astype(bool)
            ahead = np.where(right, logits.lo, -logits.hi).min(1)
        else:
            right = np.clip(self.answers[states], 0, logits.shape[1] - 1)
            others = logits.hi.copy()
            others[rows, right] = -np.inf
            ahead = logits.lo[rows, right] - others.max(1)
        return np.where(self.asked[states], ahead, np.inf)


def numbered(rows: Array) -> Array:
    """(Q,) numbers that are the same where the rows are."""
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def difference(a: StatedClaim, b: StatedClaim) -> str | None:
    """Returns how two claims differ: by their symbols, or by what is asked or right after a word; or None."""
    if a.names != b.names:
        return f"its symbols are {a.names!r:.80}, and not {b.names!r:.80}"
    words: dict[tuple[int, int], tuple[str, ...]] = {(a.start, b.start): ()}
    waiting = list(words)
    for q, p in waiting:
        for s, name in enumerate(a.names):
            after, word = (int(a.delta[q, s]), int(b.delta[p, s])), (*words[q, p], name)
            if _right(a, after[0]) != _right(b, after[1]):
                return f"after the word {' '.join(word):.80} they differ"
            if after not in words:
                words[after] = word
                waiting.append(after)
    return None


def _right(claim: StatedClaim, q: int) -> Any:
    return claim.answers[q].tolist() if claim.asked[q] else None


class Maps:
    """The elements of a proof: maps of the states on themselves, each once."""

    def __init__(self, content: Any, states: int):
        self.rows = table(content, "the elements", 2, states)
        if self.rows.shape[1] != states:
            raise Rejected(f"an element must say where each of {states} states goes, got {self.rows.shape[1]}.")
        self.rows = np.ascontiguousarray(self.rows)
        self._number = {row.tobytes(): i for i, row in enumerate(self.rows)}
        if len(self._number) < len(self.rows):
            raise Rejected("the elements must differ, and one is listed twice.")

    def __len__(self) -> int:
        return len(self.rows)

    def find(self, maps: Array) -> Array:
        """The number of each map; -1 where it is none of these."""
        return np.array([self._number.get(row.tobytes(), -1) for row in np.ascontiguousarray(maps)], dtype=np.int64)


def composed(first: Array, then: Array) -> Array:
    """δ_uv of δ_u and δ_v, both (N,Q)."""
    return np.take_along_axis(then, first, 1)


def product_of(maps: Sequence[Array]) -> Array:
    """δ_uv… of δ_u, δ_v, …, each (N,Q)."""
    return reduce(composed, maps)
