"""Every node that some word makes, level by level, each beside what its word does to the states of a machine.

    F_0 = {(leaf s, δ_s)}                         E_0 = {}
    F_l = {(node(x_1 … x_C), f_1 ; … ; f_C)}      of all (x_i, f_i) in F_(l-1)
    E_l = {(node(x_1 … x_m), f_1 ; … ; f_m)}      (x_1, f_1) in E_(l-1), or for m < C in F_(l-1); the others in F_(l-1)

F_l are the nodes over C^l tokens, E_l those over fewer: the first of a word, older than which there are only pads. The
words whose answer is read at level l end in F_l or, with m > 1, in E_l (with m = 1 too where l is 1). (F_l, E_l) is all
that level l + 1 depends on; so once such a pair comes back, every later level has been seen, and all lengths with it.

A word without which no question is ever asked is left out. The transition of a word is δ_w, and δ_uv = δ_u ; δ_v: it is
`live` if from some state that the start reaches it leads to one from which a state with a question is reached, and
`opening` if it does so from the start itself.

Shapes: M nodes at once, m taps, C chunk, Q states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from ...automata import compose
from ...limits import Limit
from ..checker.claim import StatedClaim
from ..claim import Claim

TUPLES = Limit("TUPLES", 2_000_000, "tuples of nodes at a level", "Extract from a model with fewer nodes")
WRITTEN = 1_000_000
"""Words are written out up to so many tokens."""

NodeTable = Callable[[np.ndarray], np.ndarray]
"""From (M,m) inputs to the (M,) elements of their nodes, -1 for none. Input s < S is leaf s, and S + e is element e."""
Key = tuple[int, int]
"""A node: what it is as an input to the level above, -1 for none; and the number of its word's transition."""


class Shortest(NamedTuple):
    """A shortest word of a node."""

    length: int
    parts: tuple[tuple[bool, Key], ...]
    """The nodes of the level below that it is made of, oldest first, and whether they are of E."""


Nodes = dict[Key, Shortest]


class Transitions:
    """The transitions met so far, each with a number; those of the symbols come first."""

    def __init__(self, claim: Claim):
        self.start, self._stated = claim.machine.start, StatedClaim(claim.to_json())
        self.rows: list[np.ndarray] = []
        """(Q,) each."""
        self.live: list[bool] = []
        self.opening: list[bool] = []
        self._numbers: dict[bytes, int] = {}
        self._products: dict[tuple[int, int], int] = {}
        self.symbols = [self._number(row) for row in claim.machine.delta.T]

    def _number(self, row: np.ndarray) -> int:
        row = np.ascontiguousarray(row, dtype=np.intp)
        if (key := row.tobytes()) not in self._numbers:
            self._numbers[key] = len(self.rows)
            self.rows.append(row)
            self.live.append(bool(self._stated.live(row[None], 1)[0]))
            self.opening.append(bool(self._stated.opens(row[None], 1)[0]))
        return self._numbers[key]

    def composed(self, a: int, b: int) -> int:
        """The number of the transition by both, a first."""
        if (a, b) not in self._products:
            self._products[a, b] = self._number(compose(self.rows[a], self.rows[b]))
        return self._products[a, b]

    def state(self, number: int) -> int:
        """The state that words of this transition lead to from the start."""
        return int(self.rows[number][self.start])


@dataclass(frozen=True, eq=False)
class TreeLevel:
    number: int
    edge: Nodes
    full: Nodes
    read: Nodes
    """Those at which a word's answer is read."""
    below: TreeLevel | None

    def word(self, node: Shortest) -> list[int]:
        """A shortest word of a node of this level."""
        assert self.below is not None
        return [s for edge, key in node.parts for s in self.below._word(edge, key)]

    def _word(self, edge: bool, key: Key) -> list[int]:
        return [key[0]] if self.below is None else self.word((self.edge if edge else self.full)[key])


def levels(transitions: Transitions, chunk: int, table: NodeTable) -> Iterator[TreeLevel]:
    """Levels 1, 2, …, until there is nothing new to see."""
    leaves = {(s, act): Shortest(1, ()) for s, act in enumerate(transitions.symbols) if transitions.live[act]}
    level, seen = TreeLevel(0, {}, leaves, leaves, None), set()
    while (key := (frozenset(level.full), frozenset(level.edge))) not in seen:
        seen.add(key)
        level = _next(level, transitions, chunk, table)
        yield level


def _next(level: TreeLevel, transitions: Transitions, chunk: int, table: NodeTable) -> TreeLevel:
    edge, whole = [(True, key) for key in level.edge], [(False, key) for key in level.full]

    def made(firsts: list[tuple[bool, Key]], m: int, needed: list[bool]) -> list[tuple[Key, Shortest]]:
        """The nodes of one of these and m - 1 full ones."""
        TUPLES.check(len(firsts) * max(1, len(whole)) ** (m - 1), f"extract: level {level.number + 1}")
        inputs, acts, words = [], [], []
        for parts in product(firsts, *[whole] * (m - 1)):
            act = parts[0][1][1]
            for _, (_, then) in parts[1:]:
                act = transitions.composed(act, then)
            if needed[act]:
                inputs.append([key[0] for _, key in parts])
                acts.append(act)
                words.append(Shortest(sum((level.edge if e else level.full)[key].length for e, key in parts), parts))
        elements = table(np.array(inputs)).tolist() if inputs else []
        above = [-1 if e < 0 else len(transitions.symbols) + e for e in elements]
        return list(zip(zip(above, acts, strict=True), words, strict=True))

    firsts = [made(edge + (whole if m < chunk else []), m, transitions.opening) for m in range(1, chunk + 1)]
    full = _distinct([made(whole, chunk, transitions.live)])
    begun = [(key, word) for key, word in full.items() if transitions.opening[key[1]]]
    read = _distinct([begun, *firsts[0 if level.number == 0 else 1 :]])
    return TreeLevel(level.number + 1, _distinct(firsts), full, read, level)


def _distinct(parts: Iterable[Iterable[tuple[Key, Shortest]]]) -> Nodes:
    """All of these, and of equal ones the one with the shortest word."""
    nodes: Nodes = {}
    for part in parts:
        for key, word in part:
            if key not in nodes or word.length < nodes[key].length:
                nodes[key] = word
    return nodes
