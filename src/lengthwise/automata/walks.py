"""Where a machine is when its symbols are drawn at random: the distribution over states, exactly, step by step.

π_t(q') = Σ over q, s with δ(q, s) = q' of π_{t-1}(q) P_t(s)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from .semiautomaton import Semiautomaton


def walk(machine: Semiautomaton, weights: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """π_1, π_2, … (Q,) for symbol distributions `weights`, one per step: (S,), or (Q, S) where it depends on the state.

    >>> parity = Semiautomaton([[0, 1], [1, 0]])
    >>> [pi.round(3).tolist() for pi in walk(parity, [np.array([0.9, 0.1])] * 2)]
    [[0.9, 0.1], [0.82, 0.18]]
    """
    target = machine.delta.ravel()
    pi = np.zeros(machine.num_states)
    pi[machine.start] = 1.0
    for step in weights:
        pi = np.bincount(target, weights=(pi[:, None] * step).ravel(), minlength=machine.num_states)
        yield pi
