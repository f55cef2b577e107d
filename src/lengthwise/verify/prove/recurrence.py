"""Proof by boxes over time: sets of hidden states for each state of the machine, for RNN, GRU and LSTM.

What is to be shown, and how boxes are made wide enough for it, the checker says (checker/recurrence.py). Here the sets
are proposed. One for each state of the machine is seldom enough, for a layer of thresholds cannot follow every machine
so: the next state of parity is the exclusive or of state and symbol. So they are found: from 0 on each state that a
symbol leads to is a set of its own, unless it is near one of the same state of the machine that is there. What is near
is tried from coarse to fine.

Shapes: N sets, S symbols, n numbers of the joint state of all layers: h of each, and c for the LSTM.
"""

from __future__ import annotations

import time

import numpy as np
from torch import nn

from ...mixers.recurrent import Recurrent
from ...models.depth import Fixed
from .. import certificate as certificates
from ..checker import Rejected
from ..checker.claim import StatedClaim
from ..checker.intervals import Interval
from ..checker.recurrence import Recurrence, closed
from ..claim import Claim
from ..verdict import Proof, Unknown, proof_by
from .boxes import CONDITIONS
from .node import inner_of

NEAR = (0.5, 0.1, 0.02)
"""How far apart, in their largest entry, states are one set, in turn."""


def recurrence_of(model: nn.Module, arithmetic: str = "float64") -> Recurrence | str:
    """Returns the model as the checker reads it, or why it is no recurrence of torch's cells."""
    inner = inner_of(model)
    if inner is None or not isinstance(inner.depth, Fixed):
        return "the model is none of the recurrent networks rnn, gru and lstm"
    if not all(type(getattr(layer, "mixer", None)) is Recurrent for layer in inner.depth.layers):
        return "the model's layers are not recurrences alone"
    return certificates.network_of(inner, Recurrence, arithmetic)


def prove_recurrence(
    model: nn.Module, claim: Claim, seconds: float = 60.0, arithmetic: str = "float32"
) -> Proof | Unknown | str:
    """The proof of an RNN, GRU or LSTM, evaluated in this arithmetic as it is stored."""
    network = recurrence_of(model, arithmetic)
    if isinstance(network, str):
        return network
    ends, shortcoming = time.monotonic() + seconds, Unknown("there was no time to find boxes")
    for near in NEAR:
        sets = explored(network, claim, near, ends)
        if isinstance(sets, Unknown):
            return sets if near == NEAR[0] else shortcoming
        states, boxes = sets
        try:
            boxes, _, margin = closed(network, StatedClaim(claim.to_json()), states, boxes)
        except Rejected as reason:
            shortcoming = Unknown(f"no boxes around the states that are {near} apart close: {reason}".removesuffix("."))
            if time.monotonic() > ends:
                return shortcoming
            continue
        radius = np.where(boxes.lo < boxes.hi, boxes.radius, 0.0)
        listed = zip(states.tolist(), boxes.mid.tolist(), radius.tolist(), strict=True)
        sets = [{"state": q, "centre": centre, "radius": radius} for q, centre, radius in listed]
        return proof_by("recurrence-boxes", arithmetic, margin, {"sets": sets})
    return shortcoming


def explored(network: Recurrence, claim: Claim, near: float, ends: float) -> tuple[np.ndarray, Interval] | Unknown:
    """Sets of all states that the model comes to: (N,) the machine's state of each, and what was met of it, (N,n).

    The first is 0 alone.
    """
    delta, alive, S = claim.machine.delta, claim.alive, claim.machine.num_symbols
    points, states = [np.zeros(network.size)], [int(claim.machine.start)]
    low, high, of_state = list(points), list(points), dict[int, list[int]]()
    for i, point in enumerate(points):  # grows while we walk it
        if (many := len(points) * S > CONDITIONS.most) or time.monotonic() > ends:
            met = f"{len(points):,} states that are {near} apart"
            return Unknown(f"it comes to {met}, {CONDITIONS.surpassed}" if many else f"time was up after {met}")
        images = network.step(Interval.of(point[None].repeat(S, 0)), np.arange(S)).mid
        if not np.isfinite(images).all():
            return Unknown("the model's states do not stay finite")
        for image, q in zip(images, delta[states[i]].tolist(), strict=True):
            known = of_state.setdefault(q, [])
            apart = np.abs(np.array([points[j] for j in known]) - image).max(1) if known else np.array([np.inf])
            if apart.min() <= near:
                j = known[apart.argmin()]
                low[j], high[j] = np.minimum(low[j], image), np.maximum(high[j], image)
            elif alive[q]:
                known.append(len(points))
                for row, each in ((points, image), (low, image), (high, image), (states, q)):
                    row.append(each)
    return np.array(states), Interval(np.stack(low), np.stack(high))
