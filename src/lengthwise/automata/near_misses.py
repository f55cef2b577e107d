"""Near misses: rejected words one edit away from an accepted one.

An edit substitutes, inserts or deletes one symbol. Both words are read side by side by one machine whose symbols are
moves (keep a symbol, or make the edit here), so that drawing a near miss is drawing a word of moves: exactly uniform
over all pairs (accepted word, edit) with a rejected result of the requested length. A result that k edits reach is k
times as probable as one that a single edit reaches.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import Error, LengthError
from ..limits import STATES, TABLE
from .accepted_words import WordSampler, advice
from .algebra import live_states
from .semiautomaton import Semiautomaton


class Move(NamedTuple):
    """The symbols read from the accepted word and the one written to the result; a move that `ends` comes last."""

    reads: tuple[int, ...]
    writes: int | None
    edits: bool
    ends: bool = False


class EditState(NamedTuple):
    """The machine's states after the accepted word and after the result, which differ from the edit on."""

    original: int
    written: int
    edited: bool


DONE, FAILED = "done", "failed"


class NearMisses:
    """Draws rejected words one edit from a word of `machine`; `weights` are the weights of the result's symbols.

    >>> only_as = Semiautomaton([[0, 1], [1, 1]], accepting={0}, symbols="ab")
    >>> words = NearMisses(only_as).draw(3, 50, torch.Generator().manual_seed(0))
    >>> sorted({"".join("ab"[s] for s in word) for word in words})
    ['aab', 'aba', 'baa']
    """

    def __init__(self, machine: Semiautomaton, weights: np.ndarray | None = None):
        # As many moves as pairs of symbols, twice, in every state of the pair.
        TABLE.check(2 * machine.num_symbols**2 * machine.num_states, "NearMisses")
        moves = list_moves(machine.num_symbols)
        self.pairs = edit_machine(machine, moves)
        self.writes = np.array([-1 if move.writes is None else move.writes for move in moves])
        symbol_weights = np.ones(machine.num_symbols) if weights is None else np.asarray(weights)
        self.sampler = WordSampler(self.pairs, np.where(self.writes < 0, 1.0, symbol_weights[self.writes]))

    def possible(self, length: int) -> bool:
        return self.sampler.possible(length + 1)

    def nearest(self, length: int) -> list[int]:
        """The nearest possible lengths of at least 1, below and above."""
        return [n - 1 for n in self.sampler.nearest(length + 1) if n > 1]

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        """(batch, length) rejected words."""
        if not self.possible(length):
            raise LengthError(
                f"No rejected word of length {length} is one edit away from an accepted one."
                f"{advice(self.nearest(length))}"
            )
        moves = self.sampler.draw(length + 1, batch, generator)[:, :length]
        return torch.from_numpy(self.writes)[moves]


def list_moves(symbols: int) -> list[Move]:
    """Every move over an alphabet of this size. A deletion is part of the next move, so each move writes one symbol."""
    S = range(symbols)
    return [
        *(Move((s,), s, edits=False) for s in S),
        *(Move((s,), w, edits=True) for s, w in product(S, S) if s != w),
        *(Move((), w, edits=True) for w in S),
        *(Move((gone, s), s, edits=True) for gone, s in product(S, S)),
        Move((), None, edits=False, ends=True),
        *(Move((gone,), None, edits=True, ends=True) for gone in S),
    ]


def edit_machine(machine: Semiautomaton, moves: list[Move]) -> Semiautomaton:
    """Reads moves; accepts those with one edit and the end, of an accepted word into a rejected one."""
    delta = machine.delta.tolist()
    accepts = machine.accepts_state
    # Beyond these states the pair can no longer end as it must; one failed state stands for all such pairs.
    hopeful, rejectable = live_states(machine), live_states(machine.complement())

    def step(state: Hashable, index: int) -> Hashable:
        move = moves[index]
        if not isinstance(state, EditState) or (move.edits and state.edited):
            return FAILED
        original, written = state.original, state.written
        for s in move.reads:
            original = delta[original][s]
        edited = state.edited or move.edits
        if move.ends:
            return DONE if edited and accepts[original] and not accepts[written] else FAILED
        written = delta[written][move.writes]
        possible = hopeful[original] and (rejectable[written] or not edited)
        return EditState(original, written, edited) if possible else FAILED

    start = EditState(machine.start, machine.start, edited=False)
    try:
        return Semiautomaton.from_function(step, start, len(moves), accept=lambda state: state == DONE)
    except Error as error:
        raise Error(
            f"Near misses of a machine of {machine.num_states:,} states need one of more than {STATES:,}. Use a "
            'smaller machine, or negatives="uniform".'
        ) from error
