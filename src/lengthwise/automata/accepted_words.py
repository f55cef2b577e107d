r"""The words of one length that a machine accepts: their number, and a sampler that draws them exactly uniformly.

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

from ..errors import Error, LengthError
from ..limits import LENGTH, need_memory
from .semiautomaton import Semiautomaton

BITS = 40
"""Probabilities are rounded to 2^-40: integers keep state and draw in one number, exactly."""
BLOCK = 1 << 18
"""How many probabilities are computed at a time."""
KEPT = 1 << 22
"""How many thresholds a sampler keeps; those of longer words are computed again at every draw."""


class WordSampler:
    """Draws words which `machine` accepts, each with probability proportional to the weights of its symbols.

    >>> ends_alike = Semiautomaton([[1, 2], [1, 3], [4, 2], [1, 3], [4, 2]], accepting={1, 2}, symbols="ab")
    >>> sampler = WordSampler(ends_alike)
    >>> [round(sampler.count(n)) for n in (1, 2, 3, 4)]
    [2, 2, 4, 8]
    >>> sampler.draw(5, 2, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 5])
    """

    def __init__(self, machine: Semiautomaton, weights: np.ndarray | None = None):
        self.machine = machine
        self.weights = np.ones(machine.num_symbols) if weights is None else np.asarray(weights, dtype=np.float64)
        if self.weights.shape != (machine.num_symbols,) or not (self.weights >= 0).all():
            raise Error(f"WordSampler: needs {machine.num_symbols} weights of at least 0, got {self.weights.tolist()}.")
        with np.errstate(divide="ignore"):
            self._log_weights = np.log(self.weights)
            self._log_counts = np.log(machine.accepts_state.astype(np.float64))[None]
        self._kept = np.empty((0, machine.delta.size), dtype=np.int64)

    def log_counts(self, length: int) -> np.ndarray:
        """(length + 1, Q) log N_r(q), kept and extended when a longer word is drawn."""
        known = len(self._log_counts)
        if known <= length:
            # Doubling keeps the work linear when lengths come one after another.
            size = max(length + 1, min(2 * known, length + 1024))
            LENGTH.check(length, "WordSampler")
            what = f"The numbers of words of up to {length:,} symbols, from {self.machine.num_states:,} states,"
            need_memory(2 * 8 * size * self.machine.num_states, what, "Use shorter words or a smaller machine.")
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

    def probabilities(self, low: int, high: int) -> np.ndarray:
        """P(s | q, r) as (R, Q, S) for r = low..high; 0 for states that cannot reach acceptance."""
        counts = self.log_counts(high)
        here = counts[low : high + 1, :, None]
        logs = counts[low - 1 : high][:, self.machine.delta] + self._log_weights
        return np.exp(logs - np.where(here == -np.inf, 0.0, here))

    def _blocks(self, above: int, length: int) -> Iterator[tuple[int, int]]:
        """above+1..length in blocks, the last first."""
        size = max(1, BLOCK // self.machine.delta.size)
        for high in range(length, above, -size):
            yield max(high - size, above) + 1, high

    def _thresholds(self, low: int, high: int) -> np.ndarray:
        """(R, Q * S) for r = low..high: where the cell of each (state, symbol) ends, state q's from q * 2^BITS on."""
        edges = np.cumsum(self.probabilities(low, high), axis=2)
        # Exactly 1 from the last possible symbol on, so that no impossible one is ever drawn.
        edges *= (1 << BITS) / np.maximum(edges[:, :, -1:], 0.5)
        base = np.arange(self.machine.num_states)[:, None] << BITS
        return (base + np.rint(edges).astype(np.int64)).reshape(len(edges), -1)

    def _rows(self, length: int) -> Iterator[np.ndarray]:
        """The thresholds of r = length, …, 1, kept from call to call as far as there is room."""
        limit = KEPT // self.machine.delta.size
        keep, known = min(length, limit), len(self._kept)
        if known < keep:
            more = self._thresholds(known + 1, min(limit, max(keep, 2 * known)))
            self._kept = np.concatenate([self._kept, more])
        for low, high in self._blocks(keep, length):
            yield from self._thresholds(low, high)[::-1]
        yield from self._kept[:keep][::-1]

    def draw(self, length: int, batch: int, generator: torch.Generator) -> Tensor:
        """(batch, length) accepted words."""
        if not self.possible(length):
            raise LengthError(f"The machine accepts no word of length {length}.{advice(self.nearest(length))}")
        S = self.machine.num_symbols
        draws = torch.randint(1 << BITS, (length, batch), generator=generator).numpy()
        cells = np.empty((length, batch), dtype=np.intp)
        # The thresholds of all states stand in one sorted row: a single search finds the cell q * S + s.
        target = (self.machine.delta << BITS).ravel()
        state = np.full(batch, self.machine.start << BITS)
        for t, row in enumerate(self._rows(length)):
            cells[t] = cell = row.searchsorted(state + draws[t], side="right")
            state = target.take(cell)
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
