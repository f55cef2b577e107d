"""What confirms a condition of a proof by exact arithmetic: a gap above 0, no less than the checker is sure of.

Shapes: E outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lengthwise.verify.checker.claim import StatedClaim
from lengthwise.verify.checker.fields import Rejected
from lengthwise.verify.checker.intervals import Interval

from .networks import Ball, ExactNetwork, Vector


class Confirming:
    """The conditions of a proof by number: a kind of proof says how many there are, and confirms each."""

    boxes = False
    """Whether only the centres of boxes are looked at."""

    def __init__(self, certificate: dict[str, Any], exact: ExactNetwork):
        self.exact, self.claim = exact, StatedClaim(certificate["claim"])
        self.count = 0

    def confirm(self, number: int) -> float:
        """The gap of a condition; raises `Rejected` where it is not confirmed."""
        raise NotImplementedError

    def answer(self, what: str, logits: Vector, enclosed: Interval, state: int) -> float:
        """By how much the right answer after this state of the machine is ahead; `enclosed`: (1,E), by the checker."""
        if not self.claim.asked[state]:
            return float("inf")
        inside(what, logits, enclosed)
        right = self.claim.answers[state]
        if self.claim.several:
            gap = self.least([z if yes else -z for z, yes in zip(logits, right, strict=True)])
        else:
            gap = self.least([logits[right] - z for j, z in enumerate(logits) if j != right])
        self.at_least(what, gap, float(self.claim.margins(enclosed, np.array([state]))[0]))
        return self.above_0(what, gap)

    def least(self, gaps: list[Ball]) -> Ball:
        least = gaps[0] if gaps else self.exact.arb.pos_inf()
        for gap in gaps[1:]:
            least = self.exact.arb.min(least, gap)
        return least

    def at_least(self, what: str, gap: Ball, sure: float) -> None:
        if not gap >= sure:
            raise Rejected(
                f"second opinion: {what} is decided by {float(gap.mid()):.6g}, and the checker is sure of {sure:.6g}."
            )

    def above_0(self, what: str, gap: Ball) -> float:
        if not gap > 0:
            raise Rejected(f"second opinion: {what} is not decided: its gap is {float(gap.mid()):.3g}.")
        return float(gap.lower())


def inside(what: str, exact: Vector, enclosed: Interval) -> None:
    """Whether the checker's enclosure holds the exact numbers."""
    for x, lo, hi in zip(exact, enclosed.lo.ravel(), enclosed.hi.ravel(), strict=True):
        if not (x >= float(lo) and x <= float(hi)):
            raise Rejected(
                f"second opinion: {what}: {x.str(8)} is outside of [{lo:.8g}, {hi:.8g}], where the checker has it."
            )
