"""The finite algebra of a tree model: what its node function makes of finitely many centres, and what it then says.

    e_(x_1 … x_m) = the centre nearest to node(x_1, …, x_m)       x_i a leaf or a centre, m <= C; before x_1 only pads
    said_e        = what the head says of centre e

It is the model in which every node is replaced by the nearest of the centres, as a table. Input s < S is the leaf of
symbol s, and S + e is element e.

Shapes: B words, T tokens, S symbols, N elements, M nodes at once, m taps, C chunk, D model width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ...errors import Error
from ...models.depth import groups
from ..claim import Claim
from .answers import Answer, Difference, as_json, right_answer
from .levels import WRITTEN, Shortest, Transitions, levels


@dataclass(frozen=True, eq=False)
class Algebra:
    symbols: tuple[str, ...]
    chunk: int
    table: dict[tuple[int, ...], int]
    """From 1 to C inputs, the oldest first, to the element that they make; fewer than C have pads before them."""
    said: tuple[Answer, ...]
    """What the model says of each element."""
    margins: tuple[float, ...]
    """By how much its logit leads, of each element."""
    centres: Tensor
    """(N,D)."""
    radius: float
    """A node that is farther than this from every centre stands for no element."""
    spread: float
    """The farthest that the node of any inputs in the table is from the centre that replaces it."""

    def __len__(self) -> int:
        return len(self.said)

    def leaf(self, symbol: int) -> int | None:
        """The element of the word of this one symbol."""
        return self.table.get((symbol,))

    def product(self, *elements: int) -> int | None:
        """The element of these, the oldest first; None where no word needs it."""
        return self.table.get(tuple(len(self.symbols) + e for e in elements))

    def elements_of(self, tokens: Any) -> np.ndarray:
        """(B,T) tokens -> (B,) the element of each word; -1 where one needs what is not in the table."""
        inputs = np.asarray(tokens, dtype=np.int64)
        if inputs.ndim != 2 or not inputs.shape[1]:
            raise Error(f"Algebra: words must be (B,T) with at least one token, got {list(inputs.shape)}.")
        S, C = len(self.symbols), self.chunk
        if inputs.size and not 0 <= inputs.min() <= inputs.max() < S:
            raise Error(f"Algebra: tokens must be in 0..{S - 1}, got {inputs.min()}..{inputs.max()}.")
        for _ in range(groups(inputs.shape[1], C)):
            first = inputs.shape[1] - C * (-(-inputs.shape[1] // C) - 1)
            made = self._look_up(inputs[:, :first])[:, None]
            if inputs.shape[1] > first:
                rest = inputs[:, first:].reshape(-1, C)
                made = np.concatenate([made, self._look_up(rest).reshape(len(inputs), -1)], 1)
            inputs = np.where(made < 0, -1, S + made)
        return np.where(inputs[:, 0] < 0, -1, inputs[:, 0] - S)

    def answers(self, tokens: Any) -> list[Answer | None]:
        """Returns what is said after each of the words (B,T); None where one needs what is not in the table."""
        return [None if e < 0 else self.said[e] for e in self.elements_of(tokens).tolist()]

    def _look_up(self, inputs: np.ndarray) -> np.ndarray:
        """(M,m) -> (M,), -1 for what is not in the table."""
        rows, inverse = np.unique(inputs, axis=0, return_inverse=True)
        elements = [self.table.get(row, -1) for row in map(tuple, rows.tolist())]
        return np.array(elements, dtype=np.int64)[inverse.reshape(-1)]

    def difference(self, claim: Claim) -> Difference | None:
        """A shortest word after which the algebra says something else than is right; None: there is none.

        The product of both is explored level by level, so words of all lengths are compared.
        """
        transitions = Transitions(claim)
        for level in levels(transitions, self.chunk, self._look_up):
            wrong: list[tuple[Shortest, Answer | None, Answer]] = []
            for (input_, act), node in level.read.items():
                q, output = transitions.state(act), None if input_ < 0 else self.said[input_ - len(self.symbols)]
                if claim.asked[q] and output != (right := right_answer(claim, q)):
                    wrong.append((node, output, right))
            if wrong:
                node, output, right = min(wrong, key=lambda each: each[0].length)
                word = tuple(level.word(node)) if node.length <= WRITTEN else None
                return Difference(word, node.length, output, right)
        return None

    def to_json(self) -> dict[str, Any]:
        """Without the centres, which are numbers of the model."""
        return {
            "symbols": list(self.symbols),
            "chunk": self.chunk,
            "elements": len(self),
            "table": [[*inputs, e] for inputs, e in sorted(self.table.items(), key=lambda item: (len(item[0]), item))],
            "said": list(map(as_json, self.said)),
            "margin": min(self.margins),
            "radius": self.radius,
            "spread": self.spread,
        }
