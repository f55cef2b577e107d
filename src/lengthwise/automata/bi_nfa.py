"""A Bi-NFA (He et al. 2024, §3.3): an NFA in two levels, which changes its part only where a segment ends.

    states                Q = Q_1 ∪ … ∪ Q_k, one set for each part; each part has its start state q*_i
    any other symbol σ    leads from a state of Q_i to states of Q_i alone: the part's own NFA
    the separator w*      leads from any state to some of q*_1 … q*_k

So inside a segment k small NFAs run side by side, and a whole segment is a k × k binary matrix

    A(w_1 … w_n w*)_ij = OR over q of [q is in δ_i(q*_i, w_1 … w_n)] AND leaves_i[q, j]

on the parts: the outer NFA, whose symbols are segments. States are numbered part after part.

Shapes: B batch, T tokens, k parts, Q states of all parts.

>>> stay, leave = NFA([[[1]]], accepting={0}, symbols="a"), NFA([[[0, 1], [0, 1]]], symbols="a")
>>> machine = BiNFA([stay, leave], [[[0, 1]], [[1, 0], [0, 1]]])
>>> [machine.accepts(word) for word in ("aa", "a|", "a||", "a|a|")]
[True, False, True, False]
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import Error, ShapeError
from .nfa import NFA, after, binary, choices
from .semiautomaton import encode, symbol_names, token_columns, whole_numbers


class BiNFA:
    """`parts`: the NFAs inside segments, each with one start state; `leaves`: for each part (its states, k), where the
    separator may lead from each of its states. `start` is the part it begins in, and a part's accepting states accept.

    Symbols are numbered as in the parts, and the separator comes after them.
    """

    def __init__(self, parts: Sequence[NFA], leaves: Sequence[Any], start: int = 0, separator: str = "|"):
        self.parts, k = tuple(parts), len(parts)
        self.start = whole_numbers("BiNFA: start", [start])[0]
        if k == 0 or len(leaves) != k:
            raise ShapeError(
                f"BiNFA: needs a part or more and leaves for each, got {k} parts and {len(leaves)} leaves."
            )
        for i, part in enumerate(self.parts):
            if part.symbols != self.parts[0].symbols:
                raise Error(
                    f"BiNFA: all parts read the same symbols, got {self.parts[0].symbols} in part 0 and {part.symbols} "
                    f"in part {i}."
                )
            if len(part.start) != 1:
                raise Error(f"BiNFA: a part has one start state, got {sorted(part.start)} in part {i}.")
        if not 0 <= self.start < k:
            raise Error(f"BiNFA: parts are 0..{k - 1}, got start {start}.")
        self.leaves = tuple(binary(f"BiNFA: leaves of part {i}", each, 2) for i, each in enumerate(leaves))
        for i, (part, each) in enumerate(zip(self.parts, self.leaves, strict=True)):
            if each.shape != (part.num_states, k):
                raise ShapeError(
                    f"BiNFA: leaves of part {i} must be ({part.num_states}, {k}), a row for each of its states and a "
                    f"column for each part, got {each.shape}."
                )
        self.entries = tuple(min(part.start) for part in self.parts)
        """q*_i, numbered within its part."""
        self.separator = self.parts[0].num_symbols
        self.num_symbols = self.separator + 1
        self.symbols = symbol_names("BiNFA", (*self.parts[0].symbols, separator), self.num_symbols)
        self.sizes = tuple(part.num_states for part in self.parts)
        self.num_states = sum(self.sizes)

    @classmethod
    def random(cls, sizes: Sequence[int], symbols: int, rng: np.random.Generator, density: float = 0.1) -> BiNFA:
        """Parts of these sizes, drawn as `NFA.random` draws, and likewise where they lead; starts are drawn evenly."""
        parts = []
        for size in sizes:
            part = NFA.random(size, symbols, rng, density)
            parts.append(NFA(part.matrices, [int(rng.integers(size))], part.accepting))
        leaves = [choices((size,), len(sizes), rng, density) for size in sizes]
        return cls(parts, leaves, int(rng.integers(len(sizes))))

    def run(self, tokens: Any) -> Tensor:
        """(B, T) tokens -> (B, T, Q) whether a state may have been reached after each.

        It runs in two levels: which parts the segment may have begun in, and where each part's NFA may be since.
        """
        tokens = torch.as_tensor(tokens)
        columns = token_columns("BiNFA.run", tokens, self.num_symbols)
        reached = np.empty((*columns.T.shape, self.num_states), dtype=bool)
        for word, row in zip(columns.T, reached, strict=True):
            self._run(word, row)
        return torch.from_numpy(reached).to(tokens.device)

    def _run(self, word: np.ndarray, reached: np.ndarray) -> None:
        """Writes into `reached` (T, Q)."""
        begun = np.arange(len(self.parts)) == self.start
        inside = self._entered()
        for t, symbol in enumerate(word):
            if symbol == self.separator:
                begun = after(begun, self._segment(inside))
                inside = self._entered()
            else:
                inside = [after(states, part.matrices[symbol]) for states, part in zip(inside, self.parts, strict=True)]
            reached[t] = np.concatenate([states & alive for states, alive in zip(inside, begun, strict=True)])

    def _entered(self) -> list[np.ndarray]:
        """For each part, its start state."""
        return [part.flags(part.start) for part in self.parts]

    def _segment(self, inside: Sequence[np.ndarray]) -> np.ndarray:
        """(k, k) from the part in which a segment began to that in which the next begins, given where each part is."""
        return np.stack([after(states, leaves) for states, leaves in zip(inside, self.leaves, strict=True)])

    def segment_matrix(self, word: str | Sequence[int]) -> np.ndarray:
        """(k, k) A of the segment of these symbols and a separator after them: the outer NFA's symbol.

        >>> machine = BiNFA([NFA([[[1]]]), NFA([[[0]]])], [[[0, 1]], [[1, 1]]])
        >>> machine.segment_matrix([0]).astype(int).tolist(), machine.segment_matrix([]).astype(int).tolist()
        ([[0, 1], [0, 0]], [[0, 1], [1, 1]])
        """
        codes = self.encode(word)
        if self.separator in codes:
            raise Error(f"BiNFA.segment_matrix: a segment is given without its separator, got {word!r}.")
        return self._segment([part.flags(part.states_after(codes)) for part in self.parts])

    def to_nfa(self) -> NFA:
        """The same machine in one level: block-diagonal inside segments, and the separator between all states."""
        bounds = np.cumsum((0, *self.sizes))
        matrices = np.zeros((self.num_symbols, self.num_states, self.num_states), dtype=bool)
        entries = [int(first) + entry for first, entry in zip(bounds[:-1], self.entries, strict=True)]
        accepting: list[int] = []
        for (first, end), part, leaves in zip(pairwise(bounds), self.parts, self.leaves, strict=True):
            matrices[: self.separator, first:end, first:end] = part.matrices
            matrices[self.separator][first:end, entries] = leaves
            accepting += [int(first) + q for q in part.accepting]
        return NFA(matrices, [entries[self.start]], accepting, self.symbols)

    def encode(self, word: str | Sequence[int]) -> list[int]:
        """A word as symbol numbers, as `Semiautomaton.encode`."""
        return encode(self.symbols, word)

    def accepts(self, word: str | Sequence[int]) -> bool:
        """Whether a word may end in an accepting state."""
        codes = self.encode(word)
        if not codes:
            return self.entries[self.start] in self.parts[self.start].accepting
        return bool((self.run([codes])[0, -1].numpy() & self.accepts_state).any())

    @property
    def accepts_state(self) -> np.ndarray:
        """(Q,) booleans: which states accept."""
        return np.concatenate([part.flags(part.accepting) for part in self.parts])

    def __repr__(self) -> str:
        return f"BiNFA({len(self.parts)} parts of {', '.join(map(str, self.sizes))} states, {self.num_symbols} symbols)"
