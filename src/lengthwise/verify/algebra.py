"""What a tree of words computes, on paper: the elements of its nodes, and every product it may be asked for.

A word acts on the states of the machine as a map m: Q -> Q, its *element*, and a node over words x y … has the element
of their product. Trees are aligned at a word's end: a node of any group covers a factor that ends a multiple of C
symbols before it. So an element is *needed* only where a word with an answer may have such a factor,

    some q in R has m(q) in A        R  the states that words lead to from the start
                                     A  the states from which C·k more symbols may lead to a question, k = 0, 1, …

A node that reads pads begins the word: for it q is the start. Where all states are asked, every product is needed.

Shapes: Q states, S symbols, N elements, C chunk, M conditions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from ..automata import word_map
from ..errors import Error
from ..limits import Limit
from .checker.claim import StatedClaim
from .claim import Claim

ELEMENTS = Limit("ELEMENTS", 5000, "elements of a machine's algebra", "Take a smaller machine")
ENTRIES = Limit("ALGEBRA", 20_000_000, "numbers in the elements of a machine's algebra", "Take a smaller machine")
CONDITIONS = Limit("CONDITIONS", 4_000_000, "conditions of closure", "Take a smaller machine, or chunk 2")
PAD = 0
"""The first row of a table of what a node may read: pad, then the S leaves, then the N elements."""


def in_time(ends: float) -> None:
    """Raise once `time.perf_counter` is past `ends`."""
    if time.perf_counter() > ends:
        raise Error(
            "A machine's algebra: the seconds are over before it is known. Give more, or take a smaller machine."
        )


class Conditions(NamedTuple):
    """Everything that a network with one code for each element must get right to be right on every word."""

    taps: np.ndarray
    """(M,C) what the node reads, the oldest first, as rows of the table: pad, leaves, elements."""
    results: np.ndarray
    """(M,) the element of the node."""


class MachineAlgebra:
    """The elements that are needed, and their products.

    >>> from lengthwise import tasks
    >>> from lengthwise.verify.claim import claim_of
    >>> algebra = MachineAlgebra(claim_of(tasks.get("cycle-navigation")), chunk=2)
    >>> len(algebra.elements), len(algebra.conditions().taps)
    (5, 42)
    """

    def __init__(self, claim: Claim, chunk: int, ends: float = float("inf")):
        """`ends`: when to give up, in seconds of `time.perf_counter`."""
        if not claim.asked.any():
            raise Error("certify: this machine asks nothing after any word, so there is nothing to be right about.")
        self.claim, self.chunk, self.ends = claim, chunk, ends
        self.stated = StatedClaim(claim.to_json())
        self.leaves = claim.machine.delta.T.astype(np.int64)
        """(S,Q)"""
        S = len(self.leaves)
        CONDITIONS.check(self._tuples_of(S), "A machine's algebra")
        self.leaf_groups = [
            (word, leaf_map)
            for size in range(1, chunk + 1)
            for word in product(range(S), repeat=size)
            if self.needs((leaf_map := word_map(claim.machine, word))[None], begins=size < chunk)
        ]
        """Words of at most C symbols and their elements."""
        self.elements: np.ndarray
        """(N,Q)"""
        self.index: dict[bytes, int] = {}
        elements: list[np.ndarray] = []
        for _, leaf_map in self.leaf_groups:
            self._note(leaf_map, elements)
        while True:  # until no product of them is new
            self.elements = np.array(elements).reshape(len(elements), self.leaves.shape[1])
            for _, maps in self.tuples():
                for element in maps:
                    self._note(element, elements)
            if len(elements) == len(self.elements):
                break

    def __len__(self) -> int:
        return len(self.elements)

    def needs(self, maps: np.ndarray, begins: bool) -> np.ndarray:
        """Returns (n,) which maps (n,Q) are elements of parts of asked words; `begins`: of those that begin them."""
        return (self.stated.opens if begins else self.stated.live)(maps, self.chunk)

    def _tuples_of(self, count: int) -> int:
        """Returns how many tuples a node may read."""
        return sum(count**size for size in range(1, self.chunk + 1))

    def _note(self, element: np.ndarray, elements: list[np.ndarray]) -> None:
        if (key := element.tobytes()) not in self.index:
            ELEMENTS.check(len(elements) + 1, "A machine's algebra")
            ENTRIES.check((len(elements) + 1) * len(element), "A machine's algebra")
            in_time(self.ends)
            self.index[key] = len(elements)
            elements.append(element)

    def numbers(self, maps: np.ndarray) -> np.ndarray:
        """(n,) the element of each map (n,Q)."""
        return np.array([self.index[m.tobytes()] for m in np.ascontiguousarray(maps)], dtype=np.int64)

    def tuples(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """In blocks, up to C elements, the oldest first, and their products (n,Q), where these are needed."""
        N, Q = self.elements.shape
        # Of every leaf, every element, and the head on every element.
        CONDITIONS.check(self._tuples_of(len(self.leaves)) + self._tuples_of(N) + N, "A machine's algebra")
        for size in range(1, self.chunk + 1):
            for first in range(N):
                taps, maps = np.array([[first]]), self.elements[[first]]
                for _ in range(size - 1):
                    taps = np.concatenate([np.repeat(taps, N, 0), np.tile(np.arange(N), len(taps))[:, None]], 1)
                    # First m and then the element: q -> element[m[q]].
                    maps = self.elements[:, maps].swapaxes(0, 1).reshape(-1, Q)
                in_time(self.ends)
                needed = self.needs(maps, begins=size < self.chunk)
                yield taps[needed], maps[needed]

    def conditions(self) -> Conditions:
        """Those of the leaves, then those of the elements."""
        S, C = len(self.leaves), self.chunk
        taps = [np.array([[PAD] * (C - len(word)) + [1 + s for s in word]]) for word, _ in self.leaf_groups]
        results = [self.numbers(leaf_map[None]) for _, leaf_map in self.leaf_groups]
        for elements, maps in self.tuples():
            pads = np.full((len(elements), C - elements.shape[1]), PAD)
            taps.append(np.concatenate([pads, 1 + S + elements], 1))
            results.append(self.numbers(maps))
        return Conditions(np.concatenate(taps), np.concatenate(results))

    @property
    def states(self) -> np.ndarray:
        """(N,) the state that each element leads to from the start."""
        return self.elements[:, self.claim.machine.start]
