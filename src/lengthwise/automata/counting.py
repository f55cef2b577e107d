r"""Words of one length that a machine accepts: how many there are, and drawing them exactly uniformly.

With N_r(q) the total weight of the words of r symbols that lead from q to acceptance (the number of them, when every
symbol has weight 1),

    N_0(q) = [q accepts],   N_r(q) = Σ_s w_s N_{r-1}(δ(q, s)),   P(s | q, r) = w_s N_{r-1}(δ(q, s)) / N_r(q)

and drawing symbol after symbol with P gives every accepted word its share of N_T(start). Logarithms keep it exact at
length 10,000, where the counts have thousands of digits.

Shapes: B batch, T tokens, Q states, S symbols.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ..errors import LengthError
from .semiautomaton import Semiautomaton
from .walks import walk

BITS = 40
"""Probabilities are rounded to 2^-40: integers keep state and draw in one number, exactly."""
BLOCK = 1 << 18
"""How many probabilities are worked out at a time."""


class Sampler:
    """Draws words which `machine` accepts, each with probability proportional to the weights of its symbols.

    >>> ends_alike = Semiautomaton([[1, 2], [1, 3], [4, 2], [1, 3], [4, 2]], accepting={1, 2}, symbols="ab")
    >>> sampler = Sampler(ends_alike)
    >>> [round(sampler.count(n)) for n in (1, 2, 3, 4)]
    [2, 2, 4, 8]
    >>> sampler.draw(5, 2, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 5])
    """

    def __init__(self, machine: Semiautomaton, weights: np.ndarray | None = None):
        self.machine = machine
        self.weights = np.ones(machine.num_symbols) if weights is None else np.asarray(weights, dtype=np.float64)
        with np.errstate(divide="ignore"):
            self._log_weights = np.log(self.weights)
            self._log_counts = np.log(machine.accepts_state.astype(np.float64))[None]

    def log_counts(self, length: int) -> np.ndarray:
        """(length + 1, Q) log N_r(q); kept, and extended when a longer word is asked for."""
        known = len(self._log_counts)
        if known <= length:
            # Doubling keeps the work linear when lengths are asked for one after another.
            size = max(length + 1, min(2 * known, length + 1024))
            counts = np.empty((size, self.machine.num_states))
            counts[:known] = self._log_counts
            for r in range(known, size):
                counts[r] = _log_sum(counts[r - 1][self.machine.delta] + self._log_weights)
            self._log_counts = counts
        return self._log_counts[: length + 1]

    def log_count(self, length: int) -> float:
        """The logarithm of the weight of all accepted words of this length; -inf if there is none."""
        return float(self.log_counts(length)[length, self.machine.start])

    def count(self, length: int) -> float:
        """The weight of all accepted words of this length: their number, without weights."""
        return float(np.exp(self.log_count(length)))

    def possible(self, length: int) -> bool:
        return length >= 0 and self.log_count(length) > -np.inf

    def nearest(self, length: int) -> list[int]:
        """The nearest possible lengths of at least 1, below and above (this one itself, if it is possible)."""
        if self.possible(length):
            return [length]
        below = next((n for n in range(length - 1, 0, -1) if self.possible(n)), None)
        # A language with longer words has one within any Q lengths: a long word goes round a cycle of at most Q.
        above = next((n for n in range(length + 1, length + self.machine.num_states + 1) if self.possible(n)), None)
        return [n for n in (below, above) if n is not None]

    def steps(self, length: int) -> Iterator[np.ndarray]:
        """P(s | q, r) as (Q, S) for r = length, …, 1; rows of states that cannot reach acceptance are 0."""
        Q, S = self.machine.delta.shape
        counts = self.log_counts(length)
        block = max(1, BLOCK // (Q * S))
        for high in range(length, 0, -block):
            rows = np.arange(high, max(high - block, 0), -1)
            here = counts[rows][:, :, None]
            with np.errstate(invalid="ignore"):
                logs = counts[rows - 1][:, self.machine.delta] + self._log_weights - here
            yield from np.exp(np.where(here == -np.inf, -np.inf, logs))

    def accepted_shares(self, length: int) -> np.ndarray:
        """(length,) how probable it is that the first t symbols of a drawn word are a word that the machine accepts."""
        flags = self.machine.accepts_state
        return np.array([pi[flags].sum() for pi in walk(self.machine, self.steps(length))])

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        """(batch, length) accepted words."""
        if not self.possible(length):
            raise LengthError(f"The machine accepts no word of length {length}.{advice(self.nearest(length))}")
        S = self.machine.num_symbols
        draws = torch.randint(1 << BITS, (length, batch), generator=generator).numpy()
        cells = np.empty((length, batch), dtype=np.intp)
        # The thresholds of all states stand in one sorted row, state q's from q * 2^BITS on, so that a single search
        # finds the cell q * S + s.
        base = np.arange(self.machine.num_states)[:, None] << BITS
        target = (self.machine.delta << BITS).ravel()
        state = np.full(batch, self.machine.start << BITS)
        for t, probabilities in enumerate(self.steps(length)):
            edges = np.cumsum(probabilities, axis=1)
            # Exactly 1 from the last possible symbol on, so that no impossible one is ever drawn.
            edges /= np.maximum(edges[:, -1:], 1e-300)
            thresholds = (base + (edges * (1 << BITS)).astype(np.int64)).ravel()
            cells[t] = thresholds.searchsorted(state + draws[t], side="right")
            state = target.take(cells[t])
        return torch.from_numpy(np.ascontiguousarray((cells % S).T))


def advice(lengths: list[int]) -> str:
    """ " Use 39 or 41." """
    return f" Use {' or '.join(map(str, lengths))}." if lengths else ""


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """log Σ exp over the last axis, -inf where every term is."""
    top = logs.max(axis=-1)
    safe = np.where(top == -np.inf, 0.0, top)
    with np.errstate(divide="ignore"):
        return safe + np.log(np.exp(logs - safe[..., None]).sum(axis=-1))
