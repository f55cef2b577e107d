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

Shapes: M nodes or transitions at once, m taps, C chunk, Q states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ...automata import compose
from ...limits import Limit
from ..checker.claim import StatedClaim
from ..claim import Claim

TUPLES = Limit("TUPLES", 2_000_000, "tuples of nodes at a level", "Extract from a model with fewer nodes")
WRITTEN = 1_000_000
"""Words are written out up to so many tokens."""
LONGEST = 1 << 60

Node = Callable[[np.ndarray], np.ndarray]
"""From (M,m) inputs to the (M,) elements of their nodes, -1 for none. Input s < S is leaf s, and S + e is element e."""


class Transitions:
    """The transitions met so far, each with a number; those of the symbols come first."""

    def __init__(self, claim: Claim):
        self.machine = claim.machine
        self._stated = StatedClaim(claim.to_json())
        self._index: dict[bytes, int] = {}
        self._rows: list[np.ndarray] = []
        self._products: dict[tuple[int, int], int] = {}
        self.live: list[bool] = []
        self.opening: list[bool] = []
        self.symbols = np.array([self.number(row) for row in claim.machine.delta.T])

    def __len__(self) -> int:
        return len(self._rows)

    def number(self, row: np.ndarray) -> int:
        """The number of the transition (Q,)."""
        row = np.ascontiguousarray(row, dtype=np.intp)
        key = row.tobytes()
        if key not in self._index:
            self._index[key] = len(self._rows)
            self._rows.append(row)
            self.live.append(bool(self._stated.live(row[None], 1)[0]))
            self.opening.append(bool(self._stated.opens(row[None], 1)[0]))
        return self._index[key]

    def of(self, number: int) -> np.ndarray:
        """(Q,) the transition of this number."""
        return self._rows[number]

    def composed(self, first: np.ndarray, then: np.ndarray) -> np.ndarray:
        """(M,) the numbers of `first` ; `then`, both (M,) numbers."""
        pairs, inverse = np.unique(np.stack([first, then], 1), axis=0, return_inverse=True)
        return np.array([self._product(a, b) for a, b in pairs.tolist()], dtype=np.intp)[inverse.reshape(-1)]

    def _product(self, a: int, b: int) -> int:
        if (a, b) not in self._products:
            self._products[a, b] = self.number(compose(self._rows[a], self._rows[b]))
        return self._products[a, b]

    def needed(self, numbers: np.ndarray, *, opening: bool) -> np.ndarray:
        """(M,) booleans: which of these words a question may still follow."""
        return np.array(self.opening if opening else self.live, dtype=bool)[numbers]

    def states(self, numbers: np.ndarray) -> np.ndarray:
        """(M,) the states that these words lead to from the start."""
        return np.array([row[self.machine.start] for row in self._rows], dtype=np.intp)[numbers]


@dataclass(frozen=True, eq=False)
class Nodes:
    """Some nodes of a level, no two of which have the same input number and the same transition."""

    inputs: np.ndarray
    """(M,) what they are to the level above."""
    acts: np.ndarray
    """(M,) the numbers of their words' transitions."""
    lengths: np.ndarray
    """(M,) how many tokens the shortest of their words has."""
    made_of: list[tuple[int, ...]]
    """Of which nodes of the level below, E before F, the one of this shortest word is made."""

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def key(self) -> frozenset[tuple[int, int]]:
        return frozenset(zip(self.inputs.tolist(), self.acts.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class TreeLevel:
    number: int
    edge: Nodes
    full: Nodes
    read: Nodes
    """Those at which a word's answer is read."""
    below: TreeLevel | None

    def word(self, made_of: tuple[int, ...]) -> list[int]:
        """A word of a node that is made of these of the level below."""
        assert self.below is not None
        return [s for i in made_of for s in self.below._word(i)]

    def _word(self, i: int) -> list[int]:
        nodes, i = (self.edge, i) if i < len(self.edge) else (self.full, i - len(self.edge))
        return [int(nodes.inputs[i])] if self.below is None else self.word(nodes.made_of[i])


def levels(transitions: Transitions, chunk: int, node: Node) -> Iterator[TreeLevel]:
    """Levels 1, 2, …, until there is nothing new to see."""
    S = len(transitions.symbols)
    alive = np.flatnonzero(transitions.needed(transitions.symbols, opening=False))
    full = Nodes(alive, transitions.symbols[alive], np.ones(len(alive), dtype=np.int64), [()] * len(alive))
    edge = Nodes(*(np.empty(0, dtype=np.int64) for _ in range(3)), made_of=[])
    level, seen = TreeLevel(0, edge, full, full, None), set()
    while (key := (level.full.key, level.edge.key)) not in seen:
        seen.add(key)
        level = _next(level, transitions, chunk, node, S)
        yield level


def _next(level: TreeLevel, transitions: Transitions, chunk: int, node: Node, S: int) -> TreeLevel:
    parts = []
    for m in range(1, chunk + 1):
        firsts = len(level.edge) + (len(level.full) if m < chunk else 0)
        parts.append(_made(level, _tuples(level, m, np.arange(firsts)), transitions, node, S, opening=True))
    whole = _tuples(level, chunk, len(level.edge) + np.arange(len(level.full)))
    full = _distinct([_made(level, whole, transitions, node, S, opening=False)])
    opening = transitions.needed(full.acts, opening=True)
    read = [_picked(full, opening), *parts[0 if level.number == 0 else 1 :]]
    return TreeLevel(level.number + 1, _distinct(parts), full, _distinct(read), level)


def _tuples(level: TreeLevel, m: int, firsts: np.ndarray) -> np.ndarray:
    """(M,m) all tuples of a node of `firsts` and m - 1 full ones, as places in E followed by F."""
    full = len(level.edge) + np.arange(len(level.full))
    TUPLES.check(len(firsts) * max(1, len(full)) ** (m - 1), f"extract: level {level.number + 1}")
    return np.stack(np.meshgrid(firsts, *[full] * (m - 1), indexing="ij"), -1).reshape(-1, m)


def _made(level: TreeLevel, places: np.ndarray, transitions: Transitions, node: Node, S: int, opening: bool) -> Nodes:
    inputs = np.concatenate([level.edge.inputs, level.full.inputs])[places]
    acts = np.concatenate([level.edge.acts, level.full.acts])[places]
    lengths = np.concatenate([level.edge.lengths, level.full.lengths])[places].sum(1).clip(max=LONGEST)
    act = acts[:, 0]
    for j in range(1, acts.shape[1]):
        act = transitions.composed(act, acts[:, j])
    rows = transitions.needed(act, opening=opening)
    places, inputs, act, lengths = places[rows], inputs[rows], act[rows], lengths[rows]
    elements = node(inputs) if len(inputs) else act
    return Nodes(np.where(elements < 0, -1, S + elements), act, lengths, list(map(tuple, places.tolist())))


def _picked(nodes: Nodes, which: np.ndarray) -> Nodes:
    made_of = [nodes.made_of[i] for i in np.flatnonzero(which)]
    return Nodes(nodes.inputs[which], nodes.acts[which], nodes.lengths[which], made_of)


def _distinct(parts: list[Nodes]) -> Nodes:
    """All of these, and of equal ones the one with the shortest word."""
    inputs, acts, lengths = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("inputs", "acts", "lengths")
    )
    made_of = [tuple_ for part in parts for tuple_ in part.made_of]
    order = np.lexsort([lengths])
    _, first = np.unique(np.stack([inputs, acts], 1)[order], axis=0, return_index=True)
    rows = np.sort(order[first])
    return Nodes(inputs[rows], acts[rows], lengths[rows], [made_of[i] for i in rows])
