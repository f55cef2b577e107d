"""The algebra of machines: compose transitions, multiply two machines, minimise one.

A word acts on the states as a map Q -> Q; reading u and then v acts as the one map after the other:

    (f ; g)(q) = g(f(q)),    δ_uv = δ_u ; δ_v

and all the maps that words can make are the transition monoid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import Error
from ..limits import MONOID, PRODUCT, amount, memory_free
from .semiautomaton import Semiautomaton, same_symbols


def compose(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The map that does `first` and then `second`; both (Q,) or (..., Q).

    >>> compose(np.array([1, 2, 0]), np.array([0, 0, 1])).tolist()
    [0, 1, 0]
    """
    return np.take_along_axis(*np.broadcast_arrays(second, first), axis=-1)


def word_map(machine: Semiautomaton, word: str | Sequence[int]) -> np.ndarray:
    """(Q,) the state that `word` leads to, from each state.

    >>> word_map(Semiautomaton([[0, 1], [1, 0]]), "101").tolist()
    [0, 1]
    """
    result = np.arange(machine.num_states)
    for s in machine.encode(word):
        result = machine.delta[result, s]
    return result


@dataclass(frozen=True)
class Monoid:
    """All maps Q -> Q that words make, the identity (the empty word) first, in the order of their shortest words."""

    elements: np.ndarray
    """(N, Q) maps."""
    words: tuple[tuple[int, ...], ...]
    """A shortest word for each element."""
    generators: tuple[int, ...]
    """The element that each symbol is; symbols that act alike share one."""
    cayley: np.ndarray
    """(N, S) the element that element i followed by symbol s is."""

    def __len__(self) -> int:
        return len(self.elements)

    @property
    def is_group(self) -> bool:
        """Whether every element can be undone: then no word ever loses anything about the state."""
        return bool((np.sort(self.elements, axis=1) == np.arange(self.elements.shape[1])).all())


def transition_monoid(machine: Semiautomaton, limit: int = MONOID) -> Monoid:
    """The transition monoid, found breadth first; more than `limit` elements is an error.

    >>> ring = Semiautomaton([[(q + d) % 5 for d in (0, 1, -1)] for q in range(5)])
    >>> len(transition_monoid(ring)), transition_monoid(ring).is_group
    (5, True)
    """
    identity = np.arange(machine.num_states)
    index = {identity.tobytes(): 0}
    elements: list[np.ndarray] = [identity]
    words: list[tuple[int, ...]] = [()]
    cayley: list[list[int]] = []
    size, free = 0, memory_free()
    for i, element in enumerate(elements):  # grows while we walk it
        row = []
        for s in range(machine.num_symbols):
            product = machine.delta[element, s]
            key = product.tobytes()
            if key not in index:
                size += product.nbytes + 8 * len(words[i])
                if size > free:
                    raise Error(
                        f"transition_monoid: {len(elements)} elements were found, and the next does not fit the "
                        f"{amount(free)} of memory that are free. Minimise the machine first."
                    )
                if len(elements) >= limit:
                    raise Error(
                        f"transition_monoid: has more than {limit} elements (a machine of {machine.num_states} states "
                        f"can have up to {machine.num_states}^{machine.num_states}). Pass a larger limit=, or minimise "
                        "the machine first."
                    )
                index[key] = len(elements)
                elements.append(product)
                words.append((*words[i], s))
            row.append(index[key])
        cayley.append(row)
    return Monoid(np.array(elements), tuple(words), tuple(cayley[0]), np.array(cayley))


def product(
    a: Semiautomaton, b: Semiautomaton, accept: Callable[[bool, bool], bool] | None = None, limit: int = PRODUCT
) -> Semiautomaton:
    """Both machines side by side, over the pairs of states that can be reached; `states` names the pairs.

    `accept(in_a, in_b)` says which pairs accept: `and` for the intersection, `!=` for what tells them apart.

    >>> even = Semiautomaton([[0, 1], [1, 0]], accepting={0})
    >>> ends_in_1 = Semiautomaton([[0, 1], [0, 1]], accepting={1})
    >>> both = product(even, ends_in_1, lambda x, y: x and y)
    >>> both.accepts("11"), both.accepts("110")
    (True, False)
    """
    same_symbols(a, b)
    in_both = None if accept is None else _accepting(a, b, accept)
    da, db = a.delta.tolist(), b.delta.tolist()
    return Semiautomaton.from_function(
        lambda pair, s: (da[pair[0]][s], db[pair[1]][s]), (a.start, b.start), a.symbols, in_both, limit
    )


def _accepting(a: Semiautomaton, b: Semiautomaton, accept: Callable[[bool, bool], bool]) -> Callable[..., bool]:
    in_a, in_b = a.accepts_state.tolist(), b.accepts_state.tolist()
    return lambda pair: accept(in_a[pair[0]], in_b[pair[1]])


def minimise(
    machine: Semiautomaton,
    labels: Sequence[int] | np.ndarray | None = None,
    each_round: Callable[[], None] | None = None,
) -> Semiautomaton:
    """The smallest machine with the same answers, its states numbered in the order words first reach them.

    The answers are acceptance, or `labels` (Q,): one integer for each state, which states that merge have in common.
    `each_round` is called before each of up to Q rounds, and may raise to end them.
    So two machines with accepting states have the same language iff their minimal machines are equal.

    >>> minimise(Semiautomaton([[1, 2], [0, 3], [3, 0], [2, 1]], accepting={0, 3})).delta.tolist()
    [[1, 1], [0, 0]]
    """
    machine = reachable(machine) if labels is None else machine
    start_labels = machine.accepts_state if labels is None else np.asarray(labels)
    if start_labels.shape != (machine.num_states,):
        raise Error(f"minimise: needs {machine.num_states} labels, one for each state, got {start_labels.shape}.")
    block = np.unique(start_labels, return_inverse=True)[1].reshape(-1)
    count = 0
    # Moore: split blocks until all states of a block go, by each symbol, to one block.
    while count != (count := int(block.max()) + 1):
        if each_round:
            each_round()
        signature = np.column_stack([block, block[machine.delta]])
        block = np.unique(signature, axis=0, return_inverse=True)[1].reshape(-1)
    representative = np.zeros(count, dtype=np.intp)
    representative[block] = np.arange(machine.num_states)
    accepting = None if machine.accepting is None else {int(block[q]) for q in machine.accepting}
    merged = Semiautomaton(block[machine.delta[representative]], block[machine.start], accepting, machine.symbols)
    return reachable(merged)


def reachable(machine: Semiautomaton) -> Semiautomaton:
    """The machine of the states that some word leads to, numbered breadth first from the start, which becomes 0."""
    order = [machine.start]
    number = {machine.start: 0}
    delta = machine.delta.tolist()
    for q in order:  # grows while we walk it
        for target in delta[q]:
            if target not in number:
                number[target] = len(order)
                order.append(target)
    accepting = None if machine.accepting is None else [number[q] for q in machine.accepting if q in number]
    states = None if machine.states is None else [machine.states[q] for q in order]
    table = [[number[target] for target in delta[q]] for q in order]
    return Semiautomaton(table, 0, accepting, machine.symbols, states)


def live_states(machine: Semiautomaton) -> np.ndarray:
    """(Q,) booleans: the states from which some word still leads to acceptance."""
    live = machine.accepts_state
    while not np.array_equal(live, more := live | live[machine.delta].any(axis=1)):
        live = more
    return live
