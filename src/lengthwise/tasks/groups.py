"""Finite groups as permutations: Z5 (rotations of 5 points), S5 (all permutations of 5), A5 (the even ones).

Elements are numbered in the order of their one-line notation, the identity first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import permutations

import numpy as np

from ..errors import Error

LARGEST = {"Z": 1000, "S": 6, "A": 7}
"""S7 has 5,040 elements: more classes than any test of state tracking needs, and a table of 25 million entries."""


def group_elements(name: str) -> np.ndarray:
    """(G, n) the permutations of the group: element g takes point i to row g's entry i.

    >>> group_elements("A3").tolist()
    [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    """
    parsed = re.fullmatch(r"([ZSA])([0-9]{1,9})", name)
    if not parsed:
        raise Error(f"word-problem: group must be Zn, Sn or An (e.g. Z5, S5, A5), got {name!r}.")
    kind, n = parsed[1], int(parsed[2])
    low = 3 if kind == "A" else 2
    if not low <= n <= LARGEST[kind]:
        raise Error(f"word-problem: {kind}n needs n in {low}..{LARGEST[kind]}, got {name}.")
    if kind == "Z":
        return (np.arange(n)[:, None] + np.arange(n)) % n
    every = np.array(list(permutations(range(n))))
    if kind == "S":
        return every
    first, second = np.triu_indices(n, 1)
    inversions = (every[:, first] > every[:, second]).sum(axis=1)
    return every[inversions % 2 == 0]


def element_names(name: str, elements: np.ndarray) -> list[str]:
    """The name of each element: how far a rotation turns, or the one-line notation of another permutation."""
    if name.startswith("Z"):
        return [str(g) for g in range(len(elements))]
    return ["".join(map(str, element)) for element in elements]


def element_numbers(elements: np.ndarray, permutation: np.ndarray) -> np.ndarray:
    """(...,) the element number of each permutation (..., n); -1 for a permutation outside the group."""
    base = elements.shape[1] ** np.arange(elements.shape[1] - 1, -1, -1, dtype=np.int64)
    if elements.shape[1] > 8:  # rotations: the image of point 0 tells them apart, and n^n is too large a number
        return permutation[..., 0]
    number = np.full(int(base[0]) * elements.shape[1], -1)
    number[elements @ base] = np.arange(len(elements))
    return number[permutation @ base]


def generator_numbers(group: str, elements: np.ndarray, generators: Sequence[Sequence[int]]) -> np.ndarray:
    """The element numbers of the generators, which must be different elements of the group."""
    known = {tuple(element): g for g, element in enumerate(elements.tolist())}
    numbers = [known.get(tuple(permutation), -1) for permutation in generators]
    if not numbers or -1 in numbers or len(set(numbers)) < len(numbers):
        raise Error(
            f'word-problem: generators must be "all" or different permutations in {group}, such as '
            f"{elements[-1].tolist()}, got {list(generators)}."
        )
    return np.array(numbers)
