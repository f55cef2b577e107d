"""A code for each element of a machine's algebra, such that products of codes are easy to learn.

    code(m) = (π(m(q)) for some states q and partitions π of the states)

and one group more for the answer. Which columns (q, π):

  - A partition that the machine respects (a congruence) is a smaller machine, on whose states the element acts. Its
    images of *all* these states are a code in which each entry of a product is one look-up: (x y)(q) = y(x(q)).
    S_5's words act on 120 states and, by a congruence, on 5 points.
  - Where these would be too many, images of a few states that tell all elements apart, in parts: by congruences, and by
    the answer. Modular arithmetic has 51 states and so takes 5 groups.

Random words for codes are far harder to learn, and colliding ones cannot be.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..algebra import MachineAlgebra, in_time
from ..checker.claim import numbered

LARGEST = 400
"""Numbers of one-hot entries of a code up to which all points of congruences are taken."""
ANSWERS = 16
"""An answer has a group of its own where it is one of at most so many."""
PAIRS = 3000
"""Congruences are looked for by merging so many pairs of states."""


def structured_codes(algebra: MachineAlgebra) -> np.ndarray:
    """(N,G) a code for each element, no two alike.

    >>> from lengthwise import tasks
    >>> from lengthwise.verify.claim import claim_of
    >>> algebra = MachineAlgebra(claim_of(tasks.get("parity")), chunk=2)
    >>> structured_codes(algebra).tolist()
    [[0, 1, 0], [1, 0, 1]]
    """
    partitions = congruences(algebra.claim.machine.delta, algebra.stated.reached, algebra.ends)
    columns = _all_points(algebra, partitions) or _few_points(algebra, partitions)
    columns += _answer(algebra, max(int(column.max()) + 1 for column in columns))
    return np.stack(columns, 1)


def _told_apart(columns: list[np.ndarray]) -> int:
    return len(np.unique(np.stack(columns, 1), axis=0)) if columns else 1


def _all_points(algebra: MachineAlgebra, partitions: list[np.ndarray]) -> list[np.ndarray]:
    """The images of all states of the smallest congruences that tell the elements apart; [] if they are too large."""
    groups: list[list[np.ndarray]] = []
    told = 1
    for partition in sorted(partitions, key=lambda p: p.max()):
        images = _images(algebra, partition)
        more = _told_apart([column for columns in [*groups, images] for column in columns])
        if more > told:
            groups, told = [*groups, images], more
        if told == len(algebra):
            break
    for images in list(groups):
        rest = [columns for columns in groups if columns is not images]
        if rest and _told_apart([column for columns in rest for column in columns]) == len(algebra):
            groups = rest
    columns = [column for columns in groups for column in columns]
    small = sum(int(column.max()) + 1 for column in columns) <= LARGEST
    return columns if columns and small else []


def _images(algebra: MachineAlgebra, partition: np.ndarray) -> list[np.ndarray]:
    """For each block that words reach, (N,) the block to which each element takes it."""
    blocks, first = np.unique(partition[algebra.stated.reached], return_index=True)
    states = np.flatnonzero(algebra.stated.reached)[first]
    number = {int(block): i for i, block in enumerate(blocks)}
    return [np.array([number[int(b)] for b in partition[algebra.elements[:, q]]]) for q in states]


def _few_points(algebra: MachineAlgebra, partitions: list[np.ndarray]) -> list[np.ndarray]:
    """Greedily the column that tells most elements apart; of equals the one with fewer values."""
    claim = algebra.claim
    # A state in which nothing is asked is like any other such state.
    answers = np.where(claim.asked, claim.answer_numbers, -1)
    by_parts = [answers, *(p for p in partitions if p.max() < claim.machine.num_states - 1)]
    whole = [np.arange(claim.machine.num_states)]
    states = np.flatnonzero(algebra.stated.reached)
    candidates = [numbered(p[algebra.elements[:, q]]) for p in by_parts for q in states]
    candidates = [c for c in candidates if 1 < c.max() + 1 <= ANSWERS]
    candidates += [numbered(p[algebra.elements[:, q]]) for p in whole for q in states]
    columns: list[np.ndarray] = []
    told = np.zeros(len(algebra), dtype=np.int64)
    while told.max(initial=0) + 1 < len(algebra):
        gains = [(len(np.unique(told * (c.max() + 1) + c)), -int(c.max())) for c in candidates]
        small = [i for i, c in enumerate(candidates) if c.max() < ANSWERS and gains[i][0] > told.max() + 1]
        best = max(small or range(len(candidates)), key=gains.__getitem__)
        columns.append(candidates[best])
        told = numbered(told * (candidates[best].max() + 1) + candidates[best])
    return columns


def _answer(algebra: MachineAlgebra, codes: int) -> list[np.ndarray]:
    claim = algebra.claim
    column = numbered(np.where(claim.asked, claim.answer_numbers, -1)[algebra.states])
    return [column] if 0 < column.max() < max(ANSWERS, codes) else []


def congruences(delta: np.ndarray, reached: np.ndarray, ends: float = float("inf")) -> list[np.ndarray]:
    """Partitions of the states (the block of each) that every symbol respects: the finest that merge a pair of states,
    coarsest ones above these, and that of single states. `ends`: when to give up.
    """
    table = delta.tolist()
    states = np.flatnonzero(reached).tolist()
    pairs = [(p, q) for i, p in enumerate(states) for q in states[i + 1 :]]
    pairs = pairs[:: -(-len(pairs) // PAIRS)] if pairs else []
    partitions: dict[bytes, np.ndarray] = {}

    def note(parent: list[int]) -> bool:
        partition = numbered(np.array([_root(parent, q) for q in range(len(table))]))
        key = partition.tobytes()
        known = key in partitions
        if len(np.unique(partition[states])) > 1:
            partitions.setdefault(key, partition)
        return known

    for pair in pairs:
        in_time(ends)
        parent = merged(table, list(range(len(table))), [pair])
        if note(parent) or pair[0] != states[0]:
            continue
        for coarser in _coarser(table, parent, states):
            in_time(ends)
            parent = coarser
        note(parent)
    identity = np.arange(len(table))
    partitions.setdefault(identity.tobytes(), identity)
    return list(partitions.values())


def _coarser(table: list[list[int]], parent: list[int], states: list[int]) -> Iterator[list[int]]:
    """Ever coarser congruences that still tell something apart."""
    for q in states:
        trial = merged(table, list(parent), [(states[0], q)])
        if len({_root(trial, p) for p in states}) > 1:
            parent = trial
            yield parent


def merged(table: list[list[int]], parent: list[int], pairs: list[tuple[int, int]]) -> list[int]:
    """The finest congruence above this one that merges these pairs."""
    waiting = list(pairs)
    while waiting:
        a, b = waiting.pop()
        a, b = _root(parent, a), _root(parent, b)
        if a != b:
            parent[b] = a
            waiting.extend(zip(table[a], table[b], strict=True))
    return parent


def _root(parent: list[int], q: int) -> int:
    while parent[q] != q:
        parent[q] = parent[parent[q]]
        q = parent[q]
    return q
