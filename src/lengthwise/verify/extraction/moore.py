"""A machine with an answer in every state, as it is extracted from a model: made smallest, and compared with a claim.

    said(w) = answers[δ(start, w)]      for words w of at least one symbol

The start is asked nothing, so it may be any state that the same symbols lead away from.

Shapes: Q states, S symbols.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...automata import Semiautomaton, minimise, product, reachable
from ..claim import Claim
from .answers import Answer, Difference, as_json, right_answer


@dataclass(frozen=True, eq=False)
class Moore:
    machine: Semiautomaton
    said: tuple[Answer | None, ...]
    """In each state; None where no word leads."""

    def __len__(self) -> int:
        return self.machine.num_states

    def answers(self, tokens: Any) -> list[Answer | None]:
        """Returns what is said after each of the words (B,T)."""
        return [self.said[q] for q in self.machine.run(tokens)[:, -1].tolist()]

    def smallest(self) -> Moore:
        """The machine of fewest states with the same answers."""
        Q, symbols = len(self), self.machine.symbols
        # A start that no word comes back to is a state of its own until it is known which one it may be.
        delta = np.concatenate([self.machine.delta, self.machine.delta[self.machine.start][None]])
        apart = reachable(Semiautomaton(delta, Q, symbols=symbols, states=range(Q + 1)))
        own: list[Any] = list(apart.states or ())
        labels: dict[Any, int] = {}
        named = [labels.setdefault((*self.said, "start")[q], len(labels)) for q in own]
        small = minimise(apart, named)
        pairs: Any = product(apart, small).states or ()
        merged = dict(pairs)
        says = {merged[i]: None if q == Q else self.said[q] for i, q in enumerate(own)}
        alike = [q for q in range(len(says)) if q != small.start and (small.delta[q] == small.delta[small.start]).all()]
        start = alike[0] if alike else small.start
        machine = reachable(Semiautomaton(small.delta, start, symbols=symbols, states=range(len(says))))
        order: list[Any] = list(machine.states or ())
        return Moore(Semiautomaton(machine.delta, 0, symbols=symbols), tuple(says[q] for q in order))

    def difference(self, claim: Claim) -> Difference | None:
        """A shortest word after which this machine says something else than is right; None: there is none."""
        alive = claim.alive
        start = (self.machine.start, claim.machine.start)
        words: dict[tuple[int, int], tuple[int, ...]] = {start: ()}
        queue = [start]
        for p, q in queue:  # grows while we walk it: breadth first
            for s in range(claim.machine.num_symbols):
                target = (int(self.machine.delta[p, s]), int(claim.machine.delta[q, s]))
                if target in words and target != start:
                    continue
                word = (*words[p, q], s)
                output, right = self.said[target[0]], right_answer(claim, target[1])
                if claim.asked[target[1]] and output != right:
                    return Difference(word, len(word), output, right)
                if target not in words and alive[target[1]]:
                    words[target] = word
                    queue.append(target)
        return None

    def to_json(self) -> dict[str, Any]:
        return {"states": len(self), **self.machine.to_json(), "said": list(map(as_json, self.said))}
