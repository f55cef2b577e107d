"""What words do to the states of a machine, numbered as they are met, and whether a question may still follow.

The transition of a word is δ_w, and δ_uv = δ_u ; δ_v. A word is `live` inside others if from some state that the start
reaches it leads to one from which a state with a question is reached; `opening`, if it does so from the start itself.

Shapes: M transitions at once, Q states.
"""

from __future__ import annotations

import numpy as np

from ...automata import compose
from ..checker.claimed import Claim as Claimed
from ..claim import Claim


class Transitions:
    """The transitions met so far, each with a number; those of the symbols come first."""

    def __init__(self, claim: Claim):
        self.machine = claim.machine
        self._claimed = Claimed(claim.to_json())
        self._index: dict[bytes, int] = {}
        self._rows: list[np.ndarray] = []
        self._products: dict[tuple[int, int], int] = {}
        self.live: list[bool] = []
        self.opening: list[bool] = []
        self.symbols = np.array([self.number(row) for row in claim.machine.delta.T])

    def __len__(self) -> int:
        return len(self._rows)

    def number(self, row: np.ndarray) -> int:
        """The number of the transition (Q,)."""
        row = np.ascontiguousarray(row, dtype=np.intp)
        key = row.tobytes()
        if key not in self._index:
            self._index[key] = len(self._rows)
            self._rows.append(row)
            self.live.append(bool(self._claimed.live(row[None], 1)[0]))
            self.opening.append(bool(self._claimed.opens(row[None], 1)[0]))
        return self._index[key]

    def of(self, number: int) -> np.ndarray:
        """(Q,) the transition of this number."""
        return self._rows[number]

    def composed(self, first: np.ndarray, then: np.ndarray) -> np.ndarray:
        """(M,) the numbers of `first` ; `then`, both (M,) numbers."""
        pairs, inverse = np.unique(np.stack([first, then], 1), axis=0, return_inverse=True)
        return np.array([self._product(a, b) for a, b in pairs.tolist()], dtype=np.intp)[inverse.reshape(-1)]

    def _product(self, a: int, b: int) -> int:
        if (a, b) not in self._products:
            self._products[a, b] = self.number(compose(self._rows[a], self._rows[b]))
        return self._products[a, b]

    def kept(self, numbers: np.ndarray, *, opening: bool) -> np.ndarray:
        """(M,) booleans: which of these words a question may still follow."""
        return np.array(self.opening if opening else self.live, dtype=bool)[numbers]

    def states(self, numbers: np.ndarray) -> np.ndarray:
        """(M,) the states that these words lead to from the start."""
        return np.array([row[self.machine.start] for row in self._rows], dtype=np.intp)[numbers]
