"""A machine with an answer in every state, as it is extracted from a model: made smallest, and compared with a claim.

    said(w) = answers[δ(start, w)]      for words w of at least one symbol

The start is asked nothing, so it may be any state that the same symbols lead away from.

Shapes: Q states, S symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...automata import Semiautomaton, live_states, minimise
from ..claim import Claim
from .difference import Answer, Difference, differs, right_answer


@dataclass(frozen=True, eq=False)
class Moore:
    machine: Semiautomaton
    said: tuple[Answer | None, ...]
    """In each state; None where no word leads."""

    def __len__(self) -> int:
        return self.machine.num_states

    def answers(self, tokens: Any) -> list[Answer | None]:
        """What is said after each of the words (B,T)."""
        return [self.said[q] for q in self.machine.run(tokens)[:, -1].tolist()]

    def smallest(self) -> Moore:
        """The machine of fewest states with the same answers."""
        return self._merged().numbered()

    def _merged(self) -> Moore:
        labels: dict[Answer | str | None, int] = {}
        # A start that no word comes back to is a state of its own until it is known which one it may be.
        delta = np.concatenate([self.machine.delta, self.machine.delta[self.machine.start : self.machine.start + 1]])
        named = [labels.setdefault(said, len(labels)) for said in (*self.said, "start")]
        apart = Semiautomaton(delta, len(self.said), symbols=self.machine.symbols)
        seen = _reached(apart)
        kept = np.flatnonzero(seen)
        renamed = np.zeros(len(seen), dtype=np.intp)
        renamed[kept] = np.arange(len(kept))
        apart = Semiautomaton(renamed[delta[kept]], int(renamed[len(self.said)]), symbols=self.machine.symbols)
        label = np.array(named)[kept]
        small = minimise(apart, label)
        said = _answers_along(apart, small, [None if q == len(self.said) else self.said[q] for q in kept])
        alike = [q for q in range(1, len(said)) if (small.delta[q] == small.delta[small.start]).all()]
        if not alike:
            return Moore(small, tuple(said))
        return Moore(Semiautomaton(small.delta, alike[0], symbols=small.symbols), tuple(said))

    def numbered(self) -> Moore:
        """The states that words reach, in the order in which they do."""
        order, number = [self.machine.start], {self.machine.start: 0}
        for q in order:  # grows while we walk it
            for target in self.machine.delta[q].tolist():
                if target not in number:
                    number[target] = len(order)
                    order.append(target)
        delta = [[number[t] for t in self.machine.delta[q].tolist()] for q in order]
        return Moore(Semiautomaton(delta, 0, symbols=self.machine.symbols), tuple(self.said[q] for q in order))

    def difference(self, claim: Claim) -> Difference | None:
        """A shortest word after which this machine says something else than is right; None: there is none."""
        alive = live_states(claim.machine.with_accepting(np.flatnonzero(claim.asked).tolist()))
        start = (self.machine.start, claim.machine.start)
        words: dict[tuple[int, int], tuple[int, ...]] = {start: ()}
        queue = [start]
        for p, q in queue:  # grows while we walk it: breadth first
            for s in range(claim.machine.num_symbols):
                target = (int(self.machine.delta[p, s]), int(claim.machine.delta[q, s]))
                if target in words and target != start:
                    continue
                word = (*words[p, q], s)
                said, right = self.said[target[0]], right_answer(claim, target[1])
                if claim.asked[target[1]] and differs(said, right):
                    return Difference(word, len(word), said, right)
                if target not in words and alive[target[1]]:
                    words[target] = word
                    queue.append(target)
        return None

    def to_json(self) -> dict[str, Any]:
        said = [list(s) if isinstance(s, tuple) else s for s in self.said]
        return {"states": len(self), **self.machine.to_json(), "said": said}


def _reached(machine: Semiautomaton) -> np.ndarray:
    reached = np.zeros(machine.num_states, dtype=bool)
    queue = [machine.start]
    reached[machine.start] = True
    for q in queue:  # grows while we walk it
        for target in machine.delta[q].tolist():
            if not reached[target]:
                reached[target] = True
                queue.append(target)
    return reached


def _answers_along(machine: Semiautomaton, small: Semiautomaton, said: Sequence[Answer | None]) -> list[Answer | None]:
    """The answers of the states of `small`, which are those of the states of `machine` that the same words lead to."""
    found: dict[int, Answer | None] = {small.start: said[machine.start]}
    queue, seen = [(machine.start, small.start)], {machine.start}
    for p, q in queue:  # grows while we walk it
        found[q] = said[p]
        for a, b in zip(machine.delta[p].tolist(), small.delta[q].tolist(), strict=True):
            if a not in seen:
                seen.add(a)
                queue.append((a, b))
    return [found[q] for q in range(small.num_states)]
