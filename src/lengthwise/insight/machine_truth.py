"""What the machine of the task says about the tokens an output can see, and how well clusters agree with it.

    F_r(i) = δ_{s_(i-r+1)} ; … ; δ_{s_i}     the transition of the r newest tokens at position i
    q_i    = F_(i+1)(i)(q_0)                 the state, for an output that sees all tokens

    agreement = share of the outputs whose truth is that of most of their cluster

Windows of 1, 2, 4, … tokens are each composed of two of half their size, and any r of those.

Shapes: B batch, T tokens, Q states, N outputs of all blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..automata import Semiautomaton, compose, transition_monoid
from ..errors import Error
from .block_outputs import BlockOutput

WORDS = 1000
"""A transition is named by its shortest word if the machine has no more transitions than this, else by itself."""


@dataclass(frozen=True)
class MachineTruth:
    """Clusters held against the machine of the task."""

    about: Literal["transition", "state"]
    kinds: int
    """How many different truths the outputs have."""
    agreement: float
    chance: float
    """The agreement of one cluster: the share of the commonest truth."""
    names: tuple[str, ...]
    """The truth of most outputs of each cluster: a shortest word that acts so, or the state."""
    depths: tuple[float, ...]
    """The agreement at every depth."""


def compare_with_machine(
    machine: Semiautomaton, tokens: np.ndarray, outputs: Sequence[BlockOutput], members: Sequence[np.ndarray]
) -> MachineTruth:
    """`members`: for each pass through a block, the cluster of each of its outputs, in the order of (B, n)."""
    # A block that sees everything can know the state; where all windows end, no more than the transition.
    about = "state" if any(block.reach is None for block in outputs) else "transition"
    rows = []
    for block in outputs:
        maps = window_transitions(machine, tokens, block.reach if about == "transition" else None)
        maps = maps[:, block.positions.numpy()].reshape(-1, machine.num_states)
        rows.append(maps if about == "transition" else maps[:, [machine.start]])
    kinds, truths = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
    truths = truths.reshape(-1)
    every = np.concatenate(members)
    counts = np.zeros((every.max() + 1, len(kinds)), dtype=np.int64)
    np.add.at(counts, (every, truths), 1)
    most = counts.argmax(1)
    right = most[every] == truths
    ends = np.cumsum([len(m) for m in members])[:-1]
    return MachineTruth(
        about=about,
        kinds=len(kinds),
        agreement=float(right.mean()),
        chance=float(counts.sum(0).max() / len(every)),
        names=_names(machine, about, kinds[most]),
        depths=tuple(float(part.mean()) for part in np.split(right, ends)),
    )


def window_transitions(machine: Semiautomaton, tokens: np.ndarray, reach: int | None) -> np.ndarray:
    """(B, T, Q) the transition made by the `reach` newest tokens (None: by all) at every position of (B, T).

    >>> parity = Semiautomaton([[0, 1], [1, 0]])
    >>> window_transitions(parity, np.array([[1, 1, 0, 1]]), 2)[..., 0].tolist()
    [[1, 0, 1, 1]]
    """
    T = tokens.shape[1]
    left = T if reach is None else min(reach, T)
    block, size = machine.delta.T[tokens], 1
    window, done = np.broadcast_to(np.arange(machine.num_states), block.shape), 0
    while True:
        if left & 1:
            window, done = compose(_earlier(block, done), window), done + size
        left >>= 1
        if not left:
            return window
        block, size = compose(_earlier(block, size), block), 2 * size


def _earlier(maps: np.ndarray, by: int) -> np.ndarray:
    """The maps that stand `by` tokens earlier; before the first token nothing happens."""
    moved = np.empty_like(maps)
    moved[:, :by] = np.arange(maps.shape[2])
    moved[:, by:] = maps[:, : maps.shape[1] - by]
    return moved


def _names(machine: Semiautomaton, about: str, rows: np.ndarray) -> tuple[str, ...]:
    """Returns how to write these transitions (k, Q), or states (k, 1)."""
    if about == "state":
        return tuple(f"state {machine.states[q] if machine.states else q}" for q in rows[:, 0].tolist())
    try:
        monoid = transition_monoid(machine, WORDS)
    except Error:
        return tuple(" ".join(map(str, row)) for row in rows.tolist())
    word_of = {element.tobytes(): word for element, word in zip(monoid.elements, monoid.words, strict=True)}
    # A symbol that does nothing is a better name than the empty word.
    idle = next((s for s, element in enumerate(monoid.generators) if element == 0), None)
    word_of[monoid.elements[0].tobytes()] = () if idle is None else (idle,)
    return tuple(_write(machine, word_of[np.ascontiguousarray(row).tobytes()]) for row in rows)


def _write(machine: Semiautomaton, word: tuple[int, ...]) -> str:
    symbols = [machine.symbols[s] for s in word]
    return ("" if max(map(len, machine.symbols)) == 1 else " ").join(symbols) or "ε"
