"""The conditions of proofs that go by one symbol, confirmed in exact arithmetic: recurrences and stacks of automata.

    recurrence    from the centre of every set each symbol leads into a set of the machine's next state,
                  and the head is right on the centres of the sets that are come to
    cascade       from every listed pair each symbol moves every entry by an argmax that is decided, to a listed pair,
                  and there the head is right

A cascade's states are points, so nothing is left out of its opinion but rounding; of a recurrence's boxes only the
centres are looked at. opinion.py says what confirmed means.

Shapes: N sets or pairs, n numbers of a joint state, L layers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lengthwise.verify.checker.cascade import Cascade
from lengthwise.verify.checker.fields import Rejected, boxes_of
from lengthwise.verify.checker.intervals import Interval, concatenate
from lengthwise.verify.checker.recurrence import Recurrence
from lengthwise.verify.checker.weights import Tensors

from .condition import Confirming, inside
from .networks import Ball, ExactCascade, ExactRecurrence, Vector

AT_ONCE = 16


class SetConditions(Confirming):
    """Every step from a set, and the head on every set that a step leads to."""

    boxes = True

    def __init__(self, certificate: dict[str, Any], tensors: Tensors):
        config, listed = certificate["model"]["config"], certificate["proof"]["sets"]
        self.recurrence = ExactRecurrence(config, tensors)
        super().__init__(certificate, self.recurrence)
        self.checkers = Recurrence(config, tensors, certificate["arithmetic"])
        self.states = np.array([entry["state"] for entry in listed])
        self.centre, self.radius = boxes_of(listed, self.checkers.size)
        self.around = Interval.of(self.centre).widened(self.radius)
        claim, states = self.claim, self.states
        self.steps = [
            (i, s) for i, q in enumerate(states) for s in range(claim.symbols) if claim.heeded[claim.delta[q, s]]
        ]
        self.images = self._images()
        self.entered = sorted({self._set_of(k) for k in range(len(self.steps))})
        self.count = len(self.steps) + len(self.entered)

    def _images(self) -> Interval:
        """(M,n) where the checker has each step."""
        parts = []
        for begin in range(0, len(self.steps), AT_ONCE):
            sets, symbols = np.array(self.steps[begin : begin + AT_ONCE]).T
            parts.append(self.checkers.step(self.around[sets], symbols))
        return concatenate(parts, 0)

    def _candidates(self, k: int) -> np.ndarray:
        """The sets of the machine's state after a step."""
        i, s = self.steps[k]
        return np.flatnonzero(self.states == self.claim.delta[self.states[i], s])

    def _set_of(self, k: int) -> int:
        """The set that holds best what the checker makes of a step."""
        alike, image, (i, s) = self._candidates(k), self.images[k], self.steps[k]
        beyond = np.maximum(self.around.lo[alike] - image.lo, image.hi - self.around.hi[alike]).max(1)
        if not beyond.min() <= 0:
            raise Rejected(f"second opinion: the checker has the step from set {i} by symbol {s} in no set.")
        return int(alike[beyond.argmin()])

    def confirm(self, number: int) -> float:
        if number >= len(self.steps):
            j = self.entered[number - len(self.steps)]
            enclosed = self.checkers.answer(self.around[[j]])
            logits = self.recurrence.last(self.exact.vector(self.centre[j]))
            return self.answer(f"the answer on set {j}", logits, enclosed, int(self.states[j]))
        i, s = self.steps[number]
        what = f"the step from set {i} by symbol {s}"
        x = self.recurrence.step(self.exact.vector(self.centre[i]), s)
        inside(what, x, self.images[number])
        rooms = [self._room(x, j) for j in self._candidates(number)]
        return self.above_0(what, max(rooms, key=lambda room: float(room.mid())))

    def _room(self, x: Vector, j: int) -> Ball:
        """How far from the border of set j."""
        sides = zip(x, self.centre[j], self.radius[j], strict=True)
        return self.least([float(r) - abs(a - float(c)) for a, c, r in sides])


class CascadeConditions(Confirming):
    """Every step from a listed pair, with all the argmaxes that move an entry, and the answer after it."""

    def __init__(self, certificate: dict[str, Any], tensors: Tensors):
        config, proof = certificate["model"]["config"], certificate["proof"]
        self.cascade = ExactCascade(config, tensors)
        super().__init__(certificate, self.cascade)
        self.checkers = Cascade(config, tensors, certificate["arithmetic"])
        self.states = [np.array(rows, dtype=np.int64).reshape(len(rows), -1) for rows in proof["states"]]
        self.number = [{tuple(row): i for i, row in enumerate(rows)} for rows in proof["states"]]
        self.pairs, self.listed = proof["pairs"], set(map(tuple, proof["pairs"]))
        claim = self.claim
        self.steps = [
            (i, s)
            for i, (q, *_) in enumerate(self.pairs)
            for s in range(claim.symbols)
            if claim.heeded[claim.delta[q, s]]
        ]
        self.count = len(self.steps)

    def confirm(self, number: int) -> float:
        i, s = self.steps[number]
        q, *before = self.pairs[i]
        what, gaps, after = f"the step from pair {i} by symbol {s}", [], [s]
        x = self.exact.leaf(s)
        for k in self.cascade.layers:
            enclosed = self.checkers.before(k, np.array([after]), self.states)
            inside(f"{what}: what layer {k} reads", x, enclosed)
            places = self._moved(
                what, k, x, self.states[k][before[k]], self.checkers.layers[k].functions(enclosed), gaps
            )
            if places not in self.number[k]:
                raise Rejected(f"second opinion: {what} leads layer {k} to {list(places)}, which is not listed.")
            after.append(self.number[k][places])
            x = self.cascade.read(k, x, places)
        state = int(self.claim.delta[q, s])
        if (state, *after[1:]) not in self.listed:
            raise Rejected(f"second opinion: {what} leads to a pair that is not listed.")
        enclosed = self.checkers.head(self.checkers.before(len(before), np.array([after]), self.states))
        answered = self.answer(f"{what}: the answer", self.exact.head(x), enclosed, state)
        return min([answered, *(self.above_0(what, gap) for gap in gaps)])

    def _moved(
        self, what: str, k: int, x: Vector, places: np.ndarray, checked: tuple[np.ndarray, np.ndarray], gaps: list[Ball]
    ) -> tuple[int, ...]:
        """Where the layer's entries go; `checked`: (1,h,b) where the checker has them go, and how sure it is."""
        functions, found = self.cascade.functions(k, x), []
        for (block, _, _), place in zip(self.cascade.entries[k], places.tolist(), strict=True):
            column = self.cascade.column(k, functions, block, place)
            to = max(range(len(column)), key=lambda r: float(column[r].mid()))
            gap = self.least([column[to] - z for r, z in enumerate(column) if r != to])
            if not self.checkers.layers[k].chosen and not all(z == (r == to) for r, z in enumerate(column)):
                raise Rejected(f"second opinion: {what}: a column of layer {k} is not one-hot, and nothing chooses.")
            if to != checked[0][0, block, place]:
                raise Rejected(f"second opinion: {what}: the checker has an entry of layer {k} go elsewhere.")
            self.at_least(f"{what}: an argmax of layer {k}", gap, float(checked[1][0, block, place]))
            gaps.append(gap)
            found.append(to)
        return tuple(found)
