"""Induction over time: the state of a recurrence lies in a set of the state that the machine is in.

A network's state h and the machine's state q after a word belong together if h lies in a listed box of q. So

    a  (0, start) belong together,
    b  if h lies in a box of q, step(h, s) lies in a box of δ(q, s), for every symbol s,
    c  the head is right on every box of q that b leads to,

and by induction over the symbols the answer after every word is right. States of the machine from which no question can
be reached any more need no box.

Shapes: N boxes, n numbers of the joint state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .claimed import Claim
from .fields import LIST, Rejected, entries, fields, table, whole
from .intervals import Interval, down, up
from .mean_value import box, mean_value
from .network import Recurrence
from .tree import boxes_of

AT_ONCE = 16


def check_recurrence(network: Recurrence, claim: Claim, proof: Any) -> tuple[int, float]:
    """How many conditions were checked, and the least margin of the head."""
    claim.fits(network.symbols, network.outputs)
    fields("the proof", proof, {"sets": LIST})
    listed = entries(proof["sets"], "the sets", {"state": whole(), "centre": LIST, "radius": LIST})
    state = table([entry["state"] for entry in listed], "the state of a set", 1, claim.states)
    centre, radius = boxes_of(listed, network.size)
    inner = Interval(up(centre - radius), down(centre + radius))

    # 0 lies in [c - r, c + r] where |c| <= r, which takes no rounding.
    if not np.any((np.abs(centre) <= radius).all(axis=1) & (state == claim.start)):
        raise Rejected("the first state, 0, lies in no set of the machine's start.")
    needed = [(i, s) for i, q in enumerate(state) for s in range(claim.symbols) if claim.heeded[claim.delta[q, s]]]
    entered = np.zeros(len(listed), dtype=bool)
    for begin in range(0, len(needed), AT_ONCE):
        part = np.array(needed[begin : begin + AT_ONCE])
        sets, symbols = part.T
        image = mean_value(network.step(box(centre[sets], radius[sets]), symbols))
        for k, (i, s) in enumerate(part):
            fits = [j for j in np.flatnonzero(state == claim.delta[state[i], s]) if image[k].inside(inner[j]).all()]
            if not fits:
                raise Rejected(f"set {i} is not led by symbol {s} into a listed set of the machine's next state.")
            entered[fits[0]] = True
    least = np.inf
    for j in np.flatnonzero(entered):
        logits = mean_value(network.answer(box(centre[j : j + 1], radius[j : j + 1])))
        margin = float(claim.margins(logits, state[j : j + 1])[0])
        if not margin > 0:
            raise Rejected(f"the head is not right on set {j}: by {margin:.3g}.")
        least = min(least, margin)
    return len(needed) + int(entered.sum()), least
