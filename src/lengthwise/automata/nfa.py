"""A nondeterministic automaton (Q, Σ, δ, q_0, F) as one binary matrix for each symbol: δ(q, σ) is a set of states.

    A(σ)_pq = 1 where q is in δ(p, σ);    A(w_1 … w_n) = A(w_1) ∘ … ∘ A(w_n);    (A ∘ B)_pq = OR_r (A_pr AND B_rq)

A word is accepted if some path of it leads from a start state to an accepting one.

Shapes: B batch, T tokens, Q states, S symbols.

>>> a, b = [[1, 1, 0], [0, 0, 0], [0, 0, 0]], [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
>>> ends_in_ab = NFA([a, b], accepting={2}, symbols="ab")
>>> ends_in_ab.accepts("abaab"), ends_in_ab.accepts("abba")
(True, False)
>>> ends_in_ab.determinise()
Semiautomaton(3 states, symbols a b, 1 accepting)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import Error, ShapeError
from ..limits import STATES, TABLE
from .semiautomaton import Semiautomaton, encode, symbol_names, token_columns, whole_numbers


class NFA:
    """`matrices` (S, Q, Q): whether reading symbol s in state p may lead to q. A machine is never changed.

    `symbols` says how each symbol is written (default "0", "1", …).
    """

    def __init__(
        self,
        matrices: Any,
        start: Iterable[int] = (0,),
        accepting: Iterable[int] = (),
        symbols: Sequence[str] | None = None,
    ):
        self.matrices = binary("NFA: matrices", matrices, 3)
        self.num_symbols, self.num_states, columns = self.matrices.shape
        if columns != self.num_states or 0 in self.matrices.shape:
            raise ShapeError(
                f"NFA: matrices must be (S, Q, Q), at least one symbol and state, got shape {self.matrices.shape}."
            )
        self.start = self._states("start", start)
        self.accepting = self._states("accepting", accepting)
        self.symbols = symbol_names("NFA", symbols, self.num_symbols)

    def _states(self, name: str, numbers: Iterable[int]) -> frozenset[int]:
        states = frozenset(whole_numbers(f"NFA: {name}", numbers))
        if outside := sorted(q for q in states if not 0 <= q < self.num_states):
            raise Error(f"NFA: states are 0..{self.num_states - 1}, got {outside[0]} as {name} state.")
        return states

    @classmethod
    def of(cls, machine: Semiautomaton) -> NFA:
        """A deterministic machine as one that happens to have no choice."""
        matrices = np.arange(machine.num_states) == machine.delta.T[..., None]
        return cls(matrices, {machine.start}, machine.need_accepting("NFA.of"), machine.symbols)

    @classmethod
    def random(cls, states: int, symbols: int, rng: np.random.Generator, density: float = 0.1) -> NFA:
        """By each symbol a state leads to one drawn evenly, and to others with probability `density`, so that sets of
        states never die out; a state accepts with probability 1/2."""
        accepting = np.flatnonzero(rng.random(states) < 0.5).tolist()
        return cls(choices((symbols, states), states, rng, density), accepting=accepting)

    @classmethod
    def of_all_maps(cls, states: int) -> NFA:
        """Theorem 3.1's: a symbol for every map from the states to sets of states; the last state accepts.

        Bit p Q + q of a symbol's number says whether it leads from p to q, so there are 2^(Q²) symbols.

        >>> NFA.of_all_maps(2).num_symbols
        16
        """
        TABLE.check(states**2 << min(states**2, 64), "NFA.of_all_maps")
        bits = np.arange(1 << states**2)[:, None] >> np.arange(states**2) & 1
        return cls(bits.reshape(-1, states, states), accepting={states - 1})

    def run(self, tokens: Any, start: Iterable[int] | None = None) -> Tensor:
        """(B, T) tokens -> (B, T, Q) whether a state may have been reached after each; `start`: instead of its own."""
        tokens = torch.as_tensor(tokens)
        columns = token_columns("NFA.run", tokens, self.num_symbols)
        T, B = columns.shape
        reached = np.empty((T, B, self.num_states), dtype=bool)
        row = np.broadcast_to(
            self.flags(self.start if start is None else self._states("start", start)), (B, self.num_states)
        )
        for t in range(T):
            row = reached[t] = after(row, self.matrices[columns[t]])
        return torch.from_numpy(np.ascontiguousarray(reached.transpose(1, 0, 2))).to(tokens.device)

    def flags(self, states: Iterable[int]) -> np.ndarray:
        """(Q,) which states are among these."""
        mask = np.zeros(self.num_states, dtype=bool)
        mask[list(states)] = True
        return mask

    def encode(self, word: str | Sequence[int]) -> list[int]:
        """A word as symbol numbers, as `Semiautomaton.encode`."""
        return encode(self.symbols, word)

    def states_after(self, word: str | Sequence[int]) -> frozenset[int]:
        """The states that a word may lead to (the start states after the empty one)."""
        codes = self.encode(word)
        return frozenset(self.run([codes])[0, -1].nonzero().flatten().tolist()) if codes else self.start

    def accepts(self, word: str | Sequence[int]) -> bool:
        """Whether a word may end in an accepting state."""
        return bool(self.states_after(word) & self.accepting)

    def word_matrix(self, word: str | Sequence[int]) -> np.ndarray:
        """(Q, Q) A(word): whether the word may lead from p to q."""
        result = np.eye(self.num_states, dtype=bool)
        for s in self.encode(word):
            result = after(result, self.matrices[s])
        return result

    def determinise(self, limit: int = STATES) -> Semiautomaton:
        """The deterministic machine of the same language, over the sets of states that words reach (2^Q at most).

        Its `states` name these sets. `automata.minimise` merges those that accept alike.
        """

        def step(states: tuple[int, ...], symbol: int) -> tuple[int, ...]:
            return tuple(np.flatnonzero(self.matrices[symbol, list(states)].any(0)).tolist())

        start = tuple(sorted(self.start))
        return Semiautomaton.from_function(
            step, start, self.symbols, lambda states: not self.accepting.isdisjoint(states), limit
        )

    def __repr__(self) -> str:
        return f"NFA({self.num_states} states, {self.num_symbols} symbols, {len(self.accepting)} accepting)"


def binary(what: str, entries: Any, dimensions: int) -> np.ndarray:
    """A read-only array of booleans, whose entries were booleans or 0 and 1."""
    try:
        array = np.array(entries.cpu() if isinstance(entries, Tensor) else entries)
    except ValueError as error:
        raise ShapeError(f"{what} must be a table of 0 and 1: {error}.") from error
    if array.ndim != dimensions:
        raise ShapeError(f"{what} must have {dimensions} dimensions, got shape {array.shape}.")
    if array.dtype.kind not in "biuf" or not ((array == 0) | (array == 1)).all():
        raise Error(f"{what}: entries are 0 or 1, got {array.dtype} between {array.min()} and {array.max()}.")
    result = array.astype(bool)
    result.flags.writeable = False
    return result


def after(states: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """(…, Q) sets of states, then a binary matrix (…, Q, R): the sets (…, R) that it leads to."""
    return np.asarray((states[..., None] & matrix).any(-2))


def choices(shape: tuple[int, ...], targets: int, rng: np.random.Generator, density: float) -> np.ndarray:
    """(*shape, targets) one target drawn evenly, and others with probability `density`."""
    one = rng.integers(targets, size=shape)[..., None] == np.arange(targets)
    return one | (rng.random((*shape, targets)) < density)
