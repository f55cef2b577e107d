"""What a node of RegularGPT has to know: the C-tuples of transitions it must compose, and how many training shows.

A node of group l composes the transitions of its C children. It is a function of a C-tuple, and one function for all
groups, since their weights are shared. With M the transition monoid of the task's machine that is up to |M|^C tuples:

    needed   tuples that a complete chunk can have, the most of any group: the product of the numbers of transitions
             that its children can have (a child of group l covers C^l tokens, and not every word is asked)
    shown    nodes in all training strings
    new      the share of the nodes of long strings whose tuple no training string had

A missing child is the pad, a kind of its own that changes nothing.

Shapes: B batch, T tokens, N elements of the monoid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from torch import Tensor

from ....automata import Semiautomaton, transition_monoid
from ....models.depth import groups
from ....seeds import generator
from ....tasks import Task

MIX = np.uint64(0x9E3779B97F4A7C15)
"""Tuples are told apart by a 64-bit hash: among millions of them a collision is not to be expected."""


class Tree:
    """The ground truth of RegularGPT's tree over a machine: the transition at every node, by number.

    >>> tree = Tree(Semiautomaton([[0, 1], [1, 0]]))
    >>> tree.size, [len(found) for found in tree.tuples(np.array([[0, 1, 1, 0, 1]]), 2)]
    (2, [3, 2, 1])
    """

    def __init__(self, machine: Semiautomaton):
        self.monoid = transition_monoid(machine)
        self.size = len(self.monoid)
        self.tokens = np.array(self.monoid.generators)

    @cached_property
    def table(self) -> np.ndarray:
        """(N+1, N+1) the element that i and then j make; the pad is number N."""
        N = self.size
        words = {word: i for i, word in enumerate(self.monoid.words)}
        table = np.empty((N + 1, N + 1), dtype=np.int32)
        table[:N, 0] = np.arange(N)
        for j, word in enumerate(self.monoid.words[1:], start=1):
            table[:N, j] = self.monoid.cayley[table[:N, words[word[:-1]]], word[-1]]
        table[N], table[:, N] = np.arange(N + 1), np.arange(N + 1)
        return table

    def tuples(self, tokens: np.ndarray, chunk: int) -> list[np.ndarray]:
        """For each group of strings (B,T), the hashes of the tuples at its nodes, those that the last answer needs."""
        x, found = self.tokens[tokens], []
        for _ in range(groups(tokens.shape[1], chunk)):
            x = np.pad(x, [(0, 0), (-x.shape[1] % chunk, 0)], constant_values=self.size)
            children = x.reshape(len(x), -1, chunk)
            found.append(_hashed(children).ravel())
            x = children[..., 0]
            for j in range(1, chunk):
                x = self.table[x, children[..., j]]
        return found

    def needed(self, places: tuple[np.ndarray, np.ndarray], chunk: int, length: int) -> int:
        """The most tuples that complete chunks of one group can have in strings of `length`.

        `places`: the elements that tokens at an even and at an odd distance from the last one can be: where symbols
        alternate, so do the kinds of chunks of odd size.
        """
        most, kinds = 0, list(places)
        for _ in range(groups(length, chunk)):
            # The children of the node at distance i stand at C i + j, the newest first.
            rows = [[kinds[(chunk * i + j) % 2] for j in range(chunk)] for i in range(2)]
            most = max(most, *(int(np.prod([float(len(child)) for child in row])) for row in rows))
            kinds = [self._products(row[::-1]) for row in rows]
        return most

    def _products(self, factors: list[np.ndarray]) -> np.ndarray:
        found = factors[0]
        for factor in factors[1:]:
            found = np.unique(self.table[np.ix_(found, factor)])
        return found


def _hashed(children: np.ndarray) -> np.ndarray:
    """One number for each row (..., C)."""
    keys = np.zeros(children.shape[:-1], dtype=np.uint64)
    for j in range(children.shape[-1]):
        keys = (keys ^ children[..., j].astype(np.uint64)) * MIX
        keys ^= keys >> np.uint64(29)
    return keys


def training_strings(task: Task, lengths: Sequence[int], count: int) -> list[Tensor]:
    """About `count` strings, as many of every length."""
    each = max(1, count // len(lengths))
    return [task.sample(n, each, generator("tuples", task.name, task.params, n)).tokens for n in lengths]


def places(tree: Tree, strings: Iterable[Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """The elements of the tokens at an even and at an odd distance from the end."""
    seen: list[set[int]] = [set(), set()]
    for tokens in strings:
        for distance in (0, 1):
            seen[distance].update(np.unique(tokens.flip(1)[:, distance::2].numpy()).tolist())
    even, odd = (np.unique(tree.tokens[sorted(symbols)]) for symbols in seen)
    return even, odd


def nodes(lengths: Sequence[int], chunk: int) -> float:
    """The nodes of a string, of all groups, on average over these lengths.

    >>> nodes([5], 2), nodes([1, 4], 2)
    (6.0, 2.0)
    """
    return sum(-(-n // chunk ** (l + 1)) for n in lengths for l in range(groups(n, chunk))) / len(lengths)


def new(tree: Tree, strings: Iterable[Tensor], tests: Tensor, chunk: int) -> float:
    """The share of the nodes of `tests` (B,T) whose tuple is at no node of `strings`."""
    known = np.unique(
        np.concatenate([np.unique(np.concatenate(tree.tuples(tokens.numpy(), chunk))) for tokens in strings])
    )
    asked = np.concatenate(tree.tuples(tests.numpy(), chunk))
    return float(1 - np.isin(asked, known).mean())
