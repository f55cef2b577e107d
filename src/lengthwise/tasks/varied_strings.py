"""Strings with symbol probabilities of their own, among which runs and repeated patterns of all kinds occur.

For each string p_0 and the rows P_s of a matrix are drawn from Dirichlet(0.3, …, 0.3); then

    P(s_1) ∝ p_0(s_1),    P(s_{t+1} | s_t) ∝ P_{s_t}(s_{t+1}),

over the symbols after which the string can still end where the task has an answer. In uniform strings of 40 symbols a
run of ten hardly ever occurs, and it is there that recurrences drift.

A machine may have states that nothing leads out of, as brackets have after one too many. Each string keeps out of these
for its first u symbols, u drawn from 0 … T: what is drawn freely is decided after a few symbols, and says no more.

Shapes: B strings, T tokens, S symbols, Q states of the machine.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..automata import Semiautomaton

CONCENTRATION = 0.3
"""The smaller, the more a string prefers few of its symbols."""


def varied_strings(
    machine: Semiautomaton, answered: Tensor | None, length: int, batch: int, generator: torch.Generator
) -> Tensor:
    """(batch, length) words of a machine that end where `answered` (Q,) is true; None: in any state.

    >>> from lengthwise import tasks
    >>> task, random = tasks.get("parity"), torch.Generator().manual_seed(1)
    >>> [task.write(row) for row in varied_strings(task.machine, None, 11, 3, random)]
    ['00100111101', '11110111111', '11000110000']
    """
    random = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    S, rows = machine.num_symbols, np.arange(batch)
    shares = random.dirichlet(np.full(S, CONCENTRATION), (batch, S + 1)) + 1e-12
    alive = np.ones((length, machine.num_states), bool)
    """(T,Q) the states from which an answer can come after so many more symbols."""
    if answered is not None:
        alive[0] = answered.numpy()
        for k in range(1, length):
            alive[k] = alive[k - 1][machine.delta].any(1)
    for_good = (machine.delta == np.arange(machine.num_states)[:, None]).all(1)
    undecided = random.integers(length + 1, size=batch) if for_good.any() else np.zeros(batch)
    strings = np.empty((batch, length), np.int64)
    state, before = np.full(batch, machine.start), np.full(batch, S)
    for t in range(length):
        allowed = alive[length - 1 - t][machine.delta[state]]
        open_ = allowed & ~(for_good[machine.delta[state]] & (t < undecided)[:, None])
        share = (shares[rows, before] * np.where(open_.any(1, keepdims=True), open_, allowed)).cumsum(1)
        before = strings[:, t] = (random.random((batch, 1)) * share[:, -1:] >= share).sum(1)
        state = machine.delta[state, before]
    return torch.from_numpy(strings)
