"""The ground truth of state tracking: a finite machine (Q, Σ, δ) as a table of integers.

    q_0 = start,   q_t = δ(q_{t-1}, s_t)

States are 0..Q-1 and symbols 0..S-1. With accepting states it is a complete deterministic automaton (DFA).

Shapes: B batch, T tokens, Q states, S symbols.

>>> parity = Semiautomaton([[0, 1], [1, 0]], accepting={1})
>>> parity.run([[1, 0, 1, 1]]).tolist()
[[1, 1, 0, 1]]
>>> parity.accepts([0, 1, 1]), parity.accepts("100")
(False, True)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import Error, ShapeError
from ..limits import STATES, TABLE
from ..options import Option


class Semiautomaton:
    """An integer transition table `delta` (Q, S) with a start state; `accepting`, `symbols` and `states` are optional.

    `symbols` says how each symbol is written (default "0", "1", …); `states` may name what each state stands for.
    A machine is never changed after it was made.
    """

    def __init__(
        self,
        delta: Any,
        start: int = 0,
        accepting: Iterable[int] | None = None,
        symbols: Sequence[str] | None = None,
        states: Sequence[Hashable] | None = None,
    ):
        self.delta = _table(delta)
        self.num_states, self.num_symbols = self.delta.shape
        self.start = whole_numbers("Semiautomaton: start", [start])[0]
        self.accepting = None if accepting is None else frozenset(whole_numbers("Semiautomaton: accepting", accepting))
        self.symbols = symbol_names("Semiautomaton", symbols, self.num_symbols)
        self.states = None if states is None else tuple(states)
        for q in {self.start} | (self.accepting or frozenset()):
            if not 0 <= q < self.num_states:
                raise Error(f"Semiautomaton: states are 0..{self.num_states - 1}, got {q} as start or accepting state.")
        if self.states is not None and len(self.states) != self.num_states:
            raise Error(f"Semiautomaton: needs {self.num_states} state names, got {len(self.states)}.")

    @classmethod
    def from_function(
        cls,
        step: Callable[[Any, int], Hashable],
        start: Hashable,
        symbols: int | Sequence[str],
        accept: Callable[[Any], bool] | None = None,
        limit: int = STATES,
    ) -> Semiautomaton:
        """The machine of a Python function `step(state, symbol index) -> state`, over the states it reaches.

        >>> Semiautomaton.from_function(lambda q, s: (q + (0, 1, -1)[s]) % 5, 0, 3).delta.tolist()
        [[0, 1, 2], [1, 3, 0], [2, 0, 4], [3, 4, 1], [4, 2, 3]]
        """
        count = symbols if isinstance(symbols, int) else len(symbols)
        index: dict[Hashable, int] = {start: 0}
        states: list[Hashable] = [start]
        delta: list[list[int]] = []
        for state in states:  # grows while we walk it: breadth first
            row = [step(state, s) for s in range(count)]
            for target in row:
                if target not in index:
                    if len(states) >= limit:
                        raise Error(
                            f"from_function: more than {limit:,} states are reachable. Is the state space finite? If "
                            "so, pass a larger limit=."
                        )
                    index[target] = len(states)
                    states.append(target)
            delta.append([index[target] for target in row])
            TABLE.check(len(delta) * count, "from_function")
        accepting = None if accept is None else [q for q, state in enumerate(states) if accept(state)]
        return cls(delta, 0, accepting, None if isinstance(symbols, int) else symbols, states)

    def run(self, tokens: Any, start: Any = None) -> Tensor:
        """(B, T) tokens -> (B, T) states, each after its token; `start` is one state or (B,) of them."""
        tokens = torch.as_tensor(tokens)
        columns = token_columns("Semiautomaton.run", tokens, self.num_symbols)
        T, B = columns.shape
        # The state is kept multiplied by S, so that a step is one addition and one look-up.
        flat = (self.delta * self.num_symbols).ravel()
        begin = np.asarray(self.start if start is None else start)
        if begin.dtype.kind not in "iu" or (begin.size and not 0 <= begin.min() <= begin.max() < self.num_states):
            raise Error(f"Semiautomaton.run: start must be states, 0..{self.num_states - 1}, got {start}.")
        states = np.empty((T, B), dtype=np.intp)
        state = np.broadcast_to(begin.astype(np.intp), (B,))
        state = state * self.num_symbols
        for t in range(T):
            state = flat.take(state + columns[t], out=states[t], mode="clip")
        states //= self.num_symbols
        return torch.from_numpy(np.ascontiguousarray(states.T)).to(tokens.device)

    def state_probabilities(self, weights: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """π_1, π_2, … (Q,) the distribution over states, exactly, where symbols are drawn at random.

            π_t(q') = Σ over q, s with δ(q, s) = q' of π_{t-1}(q) P_t(s)

        `weights` gives P_1, P_2, …: each (S,), or (Q, S) where the distribution depends on the state.

        >>> parity = Semiautomaton([[0, 1], [1, 0]])
        >>> [pi.round(3).tolist() for pi in parity.state_probabilities([np.array([0.9, 0.1])] * 2)]
        [[0.9, 0.1], [0.82, 0.18]]
        """
        target = self.delta.ravel()
        pi = np.zeros(self.num_states)
        pi[self.start] = 1.0
        for step in weights:
            pi = np.bincount(target, weights=(pi[:, None] * step).ravel(), minlength=self.num_states)
            yield pi

    def encode(self, word: str | Sequence[int]) -> list[int]:
        """A word as symbol numbers. A sequence of numbers stays as it is; a string is cut into symbol names."""
        return encode(self.symbols, word)

    def state_after(self, word: str | Sequence[int]) -> int:
        """The state after one word (the start state after the empty one)."""
        codes = self.encode(word)
        return int(self.run([codes])[0, -1]) if codes else self.start

    def accepts(self, word: str | Sequence[int]) -> bool:
        """Whether one word ends in an accepting state."""
        return self.state_after(word) in self.need_accepting("accepts")

    def need_accepting(self, purpose: str) -> frozenset[int]:
        """The accepting states, or an error saying that `purpose` needs some."""
        if self.accepting is None:
            raise Error(f"{purpose}: this machine has no accepting states. Use machine.with_accepting({{…}}) first.")
        return self.accepting

    @property
    def accepts_state(self) -> np.ndarray:
        """(Q,) booleans: which states accept."""
        flags = np.zeros(self.num_states, dtype=bool)
        flags[list(self.need_accepting("accepts_state"))] = True
        return flags

    def with_accepting(self, accepting: Iterable[int]) -> Semiautomaton:
        """The same machine with these accepting states."""
        return Semiautomaton(self.delta, self.start, accepting, self.symbols, self.states)

    def complement(self) -> Semiautomaton:
        """The machine that accepts exactly the words this one rejects."""
        return self.with_accepting(set(range(self.num_states)) - self.need_accepting("complement"))

    def equivalent(self, other: Semiautomaton) -> bool:
        """Whether both accept the same words."""
        return self.difference(other) is None

    def difference(self, other: Semiautomaton) -> list[int] | None:
        """A shortest word which exactly one of the two accepts, or None."""
        return difference(self, other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semiautomaton) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((self.delta.tobytes(), self.start, self.accepting, self.symbols))

    def __repr__(self) -> str:
        accepting = "" if self.accepting is None else f", {len(self.accepting)} accepting"
        return f"Semiautomaton({self.num_states} states, symbols {' '.join(self.symbols)}{accepting})"

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers; `Semiautomaton(**data)` rebuilds the machine (state names are left out)."""
        accepting = None if self.accepting is None else sorted(self.accepting)
        return {
            "delta": self.delta.tolist(),
            "start": self.start,
            "accepting": accepting,
            "symbols": list(self.symbols),
        }


def difference(a: Semiautomaton, b: Semiautomaton) -> list[int] | None:
    """A shortest word which exactly one of the two accepts, or None if they have the same language.

    >>> even = Semiautomaton([[0, 1], [1, 0]], accepting={0})
    >>> fewer_than_two = Semiautomaton([[0, 1], [1, 2], [2, 2]], accepting={0})
    >>> difference(even, fewer_than_two), difference(even, even)
    ([1, 1], None)
    """
    same_symbols(a, b)
    in_a, in_b = a.accepts_state, b.accepts_state
    start = (a.start, b.start)
    came_from: dict[tuple[int, int], tuple[tuple[int, int], int] | None] = {start: None}
    queue = [start]
    for p, q in queue:  # grows while we walk it: breadth first
        if in_a[p] != in_b[q]:
            word: list[int] = []
            step = came_from[p, q]
            while step is not None:
                word.append(step[1])
                step = came_from[step[0]]
            return word[::-1]
        for s in range(a.num_symbols):
            target = (int(a.delta[p, s]), int(b.delta[q, s]))
            if target not in came_from:
                came_from[target] = ((p, q), s)
                queue.append(target)
    return None


def same_symbols(a: Semiautomaton, b: Semiautomaton) -> None:
    """Raise unless both machines read the same symbols in the same order."""
    if a.symbols != b.symbols:
        raise Error(f"The machines read different symbols: {' '.join(a.symbols)} and {' '.join(b.symbols)}.")


def _table(delta: Any) -> np.ndarray:
    """A read-only (Q, S) table whose entries are states."""
    try:
        entries = np.array(delta.tolist() if isinstance(delta, Tensor) else delta)
        if entries.dtype.kind not in "iuf":
            raise ValueError(f"its entries are {entries.dtype}")
        with np.errstate(invalid="ignore"):
            table = entries.astype(np.intp)
        if not (table == entries).all():
            raise ValueError(f"{entries[table != entries].flat[0]} is none")
    except (TypeError, ValueError, OverflowError) as error:
        raise ShapeError(f"Semiautomaton: delta must be a (Q, S) table of whole numbers: {error}.") from error
    if table.ndim != 2 or 0 in table.shape:
        raise ShapeError(
            f"Semiautomaton: delta must be (Q, S), at least one state and symbol, got shape {table.shape}."
        )
    if not 0 <= table.min() <= table.max() < len(table):
        raise Error(
            f"Semiautomaton: entries of delta are states 0..{len(table) - 1}, got {table.min()}..{table.max()}."
        )
    table.flags.writeable = False
    return table


def whole_numbers(label: str, values: Iterable[Any]) -> list[int]:
    """Every one a whole number: 1.5 is not cut to 1, and True is none."""
    known = Option(label, int)
    plain = (value.item() if hasattr(value, "item") else value for value in values)
    return [value if type(value) is int else known.read(value, label) for value in plain]


def in_order(name: str, items: Any) -> Any:
    """`items`, if it has an order: a set would number the symbols differently from one process to the next."""
    if isinstance(items, (set, frozenset)):
        raise Error(f"{name} must have an order, got a set. Give a text or a list, such as {sorted(map(str, items))}.")
    return items


def token_columns(what: str, tokens: Tensor, num_symbols: int) -> np.ndarray:
    """(B, T) tokens -> (T, B), each the number of a symbol. `what` reads them."""
    if tokens.dim() != 2:
        raise ShapeError(f"{what}: tokens must be (B, T), got shape {tuple(tokens.shape)}.")
    if tokens.numel() and (tokens.is_floating_point() or tokens.is_complex()):
        raise Error(f"{what}: tokens must be whole numbers, got {tokens.dtype}. Use tokens.long().")
    columns = np.ascontiguousarray(tokens.cpu().numpy().T, dtype=np.intp)
    if columns.size and not 0 <= columns.min() <= columns.max() < num_symbols:
        raise Error(
            f"{what}: tokens must be in 0..{num_symbols - 1}, "
            f"got {columns.min()}..{columns.max()}. Is this the machine of another task?"
        )
    return columns


def encode(symbols: Sequence[str], word: str | Sequence[int]) -> list[int]:
    """A word as numbers of these symbols. A sequence of numbers stays as it is; a string is cut into symbol names."""
    if not isinstance(word, str):
        return whole_numbers("a word's symbols", word)
    parts = list(word) if max(map(len, symbols)) == 1 else word.split()
    index = {name: s for s, name in enumerate(symbols)}
    if unknown := [part for part in parts if part not in index]:
        raise Error(f"{unknown[0]!r} is not a symbol of this machine, which has {', '.join(symbols)}.")
    return [index[part] for part in parts]


def symbol_names(what: str, symbols: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """How each of `count` symbols is written; None: "0", "1", …"""
    names = tuple(map(str, range(count) if symbols is None else in_order(f"{what}: symbols", symbols)))
    if len(set(names)) != count or len(names) != count:
        raise Error(f"{what}: needs {count} different symbol names, one per column, got {names}.")
    return names
