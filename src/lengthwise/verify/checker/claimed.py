"""What a certificate claims: a machine, its answers, and the maps of its states that words are.

A word u acts on the states as δ_u, and δ_uv(q) = δ_v(δ_u(q)). All of it is read from the certificate as numbers and
derived again here: which words matter is a question of the machine alone.

    live(u, C)     a state that is reached goes by u to one from which C k more symbols lead to a question, k = 0, 1, …
    opens(u, C)    the start state does

A tree of chunk C is aligned at its word's end: each of its nodes covers a part of the word that ends a multiple of C
symbols before it. So in a word that is asked about no node is of a part that is not live, none of a beginning that
does not open, and what a model makes of other parts, no answer depends on. A recurrence goes by one symbol: C = 1.

Shapes: Q states, S symbols, E outputs, N maps, C chunk.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .intervals import Array, Interval
from .weights import Rejected


class Claim:
    def __init__(self, given: Any):
        if not isinstance(given, dict) or given.keys() != {"symbols", "delta", "start", "answers", "asked"}:
            raise Rejected("the claim must be an object of symbols, delta, start, answers and asked.")
        self.delta = whole(given["delta"], "the claim's delta", 2)
        Q, S = self.delta.shape
        within(self.delta, Q, "the claim's delta")
        symbols = given["symbols"]
        if not isinstance(symbols, list) or len(symbols) != S or not all(isinstance(s, str) for s in symbols):
            raise Rejected(f"the claim must name its {S} symbols, got {symbols!r}.")
        self.symbols, self.states = S, Q
        self.start = int(whole([given["start"]], "the claim's start", 1)[0])
        within(np.array([self.start]), Q, "the claim's start")
        answers = given["answers"]
        self.several = isinstance(answers, list) and len(answers) > 0 and isinstance(answers[0], list)
        self.answers = whole(answers, "the claim's answers", 2 if self.several else 1)
        asked = whole(given["asked"], "the claim's asked", 1)
        if len(self.answers) != Q or len(asked) != Q:
            raise Rejected(f"the claim must have an answer and a question for each of {Q} states.")
        within(asked, 2, "the claim's asked")
        self.asked = asked.astype(bool)
        if self.several:
            within(self.answers, 2, "the claim's answers")
        elif (self.answers[self.asked] < 0).any():
            raise Rejected("the claim's answers must be outputs 0, 1, …")
        self.reached = np.arange(Q) == self.start
        while not self.reached[self.delta[self.reached]].all():
            self.reached[self.delta[self.reached].ravel()] = True
        self.heeded = self.heeded_by(1)
        """Whether a question can be reached from a state, or is there."""

    def heeded_by(self, chunk: int) -> Array:
        """(Q,) whether some multiple of `chunk` symbols, 0 too, leads from a state to a question."""
        found: Array = self.asked
        while True:
            before = found
            for _ in range(chunk):
                before = np.asarray(before[self.delta].any(1))
            if not (before & ~found).any():
                return found
            found = found | before

    def fits(self, symbols: int, outputs: int) -> None:
        """Whether a model of so many symbols and outputs can be what the claim speaks of."""
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


class Maps:
    """The elements of a proof: maps of the states on themselves, each once."""

    def __init__(self, given: Any, states: int):
        self.rows = whole(given, "the elements", 2)
        if self.rows.shape[1] != states:
            raise Rejected(f"an element must say where each of {states} states goes, got {self.rows.shape[1]}.")
        within(self.rows, states, "the elements")
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


def whole(given: Any, what: str, dim: int) -> Array:
    """Nested lists of whole numbers as an array; nothing is rounded, and true is no number."""
    if not isinstance(given, list) or not given:
        raise Rejected(f"{what} must be a list that is not empty, got {given!r:.60}.")
    if dim > 1:
        if not all(isinstance(row, list) and len(row) == len(given[0]) and len(row) > 0 for row in given):
            raise Rejected(f"{what} must be a table whose rows are of one length.")
        return np.stack([whole(row, what, dim - 1) for row in given])
    if not all(type(x) is int and abs(x) < 2**31 for x in given):
        raise Rejected(f"{what} must be whole numbers, got {given!r:.60}.")
    return np.array(given, dtype=np.int64)


def reals(given: Any, what: str, length: int, least: float = -(2.0**50)) -> Array:
    """A list of finite numbers."""
    if not isinstance(given, list) or len(given) != length:
        raise Rejected(f"{what} must be a list of {length} numbers.")
    if not all(type(x) in (int, float) and least <= x < 2.0**50 for x in given):
        raise Rejected(f"{what} must be finite numbers of at least {least:g} and below 2^50.")
    return np.array(given, dtype=np.float64)


def within(numbers: Array, count: int, what: str) -> None:
    if ((numbers < 0) | (numbers >= count)).any():
        raise Rejected(f"{what} must be numbers from 0 to {count - 1}, got {numbers.min()} to {numbers.max()}.")


def entries(given: Any, what: str, keys: set[str]) -> list[dict[str, Any]]:
    """A list, not empty, of objects with these fields."""
    if not isinstance(given, list) or not given:
        raise Rejected(f"{what} must be a list that is not empty.")
    if not all(isinstance(entry, dict) and entry.keys() == keys for entry in given):
        raise Rejected(f"each of {what} must be an object of {', '.join(sorted(keys))}.")
    return given
