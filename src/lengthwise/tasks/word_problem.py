"""The word problem of a finite group: which element is the product of the word?  y_t = g_1 g_2 … g_t.

The product is read from left to right: its permutation applies g_1 first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import permutations
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from ..automata import Semiautomaton
from ..errors import Error
from .base import SupervisionOption
from .independent_symbols import IndependentSymbols, ProbabilitiesOption

# Finite groups as permutations: Z5 (rotations of 5 points), S5 (all permutations of 5), A5 (the even ones).
#
# Elements are numbered in the order of their one-line notation, the identity first.

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


class WordProblem(IndependentSymbols):
    """Words over a group's elements, or over some `generators` of it (permutations); the answer is the product.

    Groups are Zn, Sn and An. From S5 (and A5) on, word problems are as hard as those of regular languages can be.

    >>> from lengthwise import tasks
    >>> task = tasks.get("word-problem", group="S3", generators=[[1, 0, 2], [1, 2, 0]], supervision="prefix")
    >>> tokens = torch.tensor([[0, 1, 1, 0, 0]])
    >>> task.vocabulary, task.elements
    (('102', '120'), ('012', '021', '102', '120', '201', '210'))
    >>> tokens, task.answer(tokens)
    (tensor([[0, 1, 1, 0, 0]]),
     tensor([[2, 5, 1, 3, 1]]))
    """

    def __init__(
        self,
        group: Annotated[str, "The group: Zn, Sn or An, such as Z5, S5, A5."] = "S5",
        generators: Annotated[
            Literal["all"] | Sequence[Sequence[int]], "The elements that words are made of: all, or some permutations."
        ] = "all",
        supervision: SupervisionOption = "last",
        probabilities: ProbabilitiesOption = None,
    ):
        elements = group_elements(group)
        names = element_names(group, elements)
        if isinstance(generators, str):
            letters = np.arange(len(elements))
        else:
            letters = generator_numbers(group, elements, generators)
            generators = elements[letters].tolist()
        self.elements = tuple(names)
        self.permutations = elements
        self.letters = elements[letters]
        # Element q, then letter s: i -> s(q(i)).
        table = element_numbers(elements, self.letters[:, elements]).T
        machine = Semiautomaton(table, symbols=[names[g] for g in letters])
        self.setup("word-problem", machine, torch.arange(len(elements)), supervision, probabilities)
        self.params = {"group": group, "generators": generators, **self.params}

    def answer(self, tokens: Tensor) -> Tensor:
        self.check_tokens(tokens)
        # Points move by permutations; the group's own table, which is the machine, is not consulted.
        B, T = tokens.shape
        n = self.letters.shape[1]
        letters = self.letters.ravel()
        start = tokens.cpu().numpy().T[:, :, None] * n
        points = np.empty((T, B, n), dtype=np.int64)
        here = np.broadcast_to(np.arange(n), (B, n))
        for t in range(T):
            points[t] = here = letters.take(start[t] + here)
        return torch.from_numpy(np.ascontiguousarray(element_numbers(self.permutations, points).T)).to(tokens.device)
