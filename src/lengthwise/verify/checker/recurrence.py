"""Induction over time: the state of a recurrence lies in a set of the state that the machine is in.

A network's state h and the machine's state q after a word belong together if h lies in a box of q. So

    a  (0, start) belong together,
    b  if h lies in a box of q, step(h, s) lies in a box of δ(q, s), for every symbol s,
    c  the head is right on every box of q that b leads to,

and by induction over the symbols the answer after every word is right. States of the machine from which no question can
be reached any more need no box. Boxes may have been found by slopes, which enclose gates and layers more tightly: one
that does not hold by intervals is made a little wider, until all do. One layer of an RNN is one sum, which intervals
enclose as tightly: its boxes hold as they are listed, or not.

A state is that of all layers: h of the first, and for an LSTM its c, then those of the second, …

Shapes: N or B boxes, n numbers of the joint state, D model width, E outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .claim import StatedClaim
from .fields import FLAG, LIST, Rejected, boxes_of, entries, exactly, fields, table, whole
from .intervals import Array, Interval, concatenate
from .network import Network
from .weights import Tensors

AT_ONCE = 64
GROWN = 0.05
"""By so much of its own width more than it has to be is a box made wider."""
WIDEST = 8.0
"""How many times as wide as it is listed a box may be made."""
ROUNDS = 200
"""Boxes that do not hold after being made wider so often grow without end."""


def check_recurrence(network: Recurrence, claim: StatedClaim, proof: Any) -> tuple[int, float]:
    """Returns how many conditions were checked, and the least margin of the head."""
    claim.fits(network.symbols, network.outputs)
    fields("the proof", proof, {"sets": LIST})
    listed = entries(proof["sets"], "the sets", {"state": whole(), "centre": LIST, "radius": LIST})
    state = table([entry["state"] for entry in listed], "the state of a set", 1, claim.states)
    centre, radius = boxes_of(listed, network.size)
    boxes = Interval.of(centre).widened(radius)
    if not np.any(((boxes.lo <= 0) & (boxes.hi >= 0)).all(axis=1) & (state == claim.start)):
        raise Rejected("the first state, 0, lies in no set of the machine's start.")
    one_sum = network.cell == "rnn" and network.layers == 1
    return closed(network, claim, state, boxes, Interval.of(centre).widened(radius * (1 if one_sum else WIDEST)))[1:]


def closed(
    network: Recurrence, claim: StatedClaim, state: Array, boxes: Interval, widest: Interval | None = None
) -> tuple[Interval, int, float]:
    """The boxes, wide enough for all that is led to them; how many conditions hold; and the head's least margin."""
    steps = np.array([(i, s) for i, q in enumerate(state) for s in range(claim.symbols)])
    after = claim.delta[state[steps[:, 0]], steps[:, 1]]
    steps, after = steps[claim.heeded[after]], after[claim.heeded[after]]
    if len(without := np.flatnonzero(~np.isin(after, state))):
        raise Rejected(_leads_nowhere(*steps[without[0]]))
    fits = np.zeros((0, network.size), dtype=bool)
    for _ in range(ROUNDS):
        image = _images(network, boxes, steps)
        into = np.zeros(len(steps), dtype=np.int64)
        for q in np.unique(after):
            rows, alike = np.flatnonzero(after == q), np.flatnonzero(state == q)
            for i in rows:
                beyond = np.maximum(boxes.lo[alike] - image.lo[i], image.hi[i] - boxes.hi[alike]).max(1)
                into[i] = alike[np.where(np.isnan(beyond), np.inf, beyond).argmin()]
        entered = np.unique(into)
        margins = claim.margins(network.answer(boxes[entered]), state[entered])
        if not (margins > 0).all():
            worst = entered[~(margins > 0)][0]
            raise Rejected(f"the head is not right on set {worst}: by {margins.min():.3g}.")
        fits = np.asarray(image.inside(boxes[into]))
        if fits.all():
            return boxes, len(steps) + len(entered), float(margins.min())
        more = np.where(fits, 0.0, GROWN * (image.hi - image.lo))
        low, high = boxes.lo.copy(), boxes.hi.copy()
        np.minimum.at(low, into, image.lo - more)
        np.maximum.at(high, into, image.hi + more)
        boxes = Interval(low, high)
        if widest is not None and len(beyond := np.flatnonzero(~np.all(boxes.inside(widest), axis=1)[into])):
            raise Rejected(_leads_nowhere(*steps[beyond[0]]))
    raise Rejected(_leads_nowhere(*steps[~fits.all(1)][0]))


def _images(network: Recurrence, boxes: Interval, steps: Array) -> Interval:
    parts = []
    with np.errstate(over="ignore", invalid="ignore"):
        for begin in range(0, len(steps), AT_ONCE):
            sets, symbols = steps[begin : begin + AT_ONCE].T
            parts.append(network.step(boxes[sets], symbols))
    return concatenate(parts, 0)


def _leads_nowhere(i: int, s: int) -> str:
    return f"set {i} is not led by symbol {s} into a listed set of the machine's next state."


GATES = {"rnn": 1, "gru": 3, "lstm": 4}
SUMS = {"rnn": 1, "gru": 2, "lstm": 4}
"""How many gates are functions of one sum W x + b + U h + c: those of a GRU but the last."""


class Recurrence(Network):
    def __init__(self, config: dict[str, Any], tensors: Tensors, arithmetic: str = "float32"):
        super().__init__(config, tensors, arithmetic)
        D = self.width
        mixers, blocks = self.fixed_layers()
        for spec in blocks:
            fields("block", spec, {"kind": exactly("bare")}, {"biases": FLAG})
        self.layers = len(mixers)
        self.cell = fields("mixer", mixers[0], {"name": exactly(*GATES)})["name"]
        if any(spec != mixers[0] for spec in mixers):
            raise Rejected(f"mixer: only layers of one kind can be checked, got {mixers!r:.80}.")
        g, self._sums = GATES[self.cell], SUMS[self.cell]
        self._cells = []
        for k in range(self.layers):
            at = f"depth.layers.{k}.mixer.cell"
            parts = [self.weights.take(f"{at}.weight_{side}_l0", g * D, D) for side in ("ih", "hh")]
            biases = [self.weights.take(f"{at}.bias_{side}_l0", g * D) for side in ("ih", "hh")]
            gate = lambda x, i: x[i * D : (i + 1) * D]  # noqa: E731
            self._cells.append(
                [[(gate(W, i), gate(b, i)) for i in range(g)] for W, b in zip(parts, biases, strict=True)]
            )
        self.parts = 2 if self.cell == "lstm" else 1
        self.size = self.layers * self.parts * D
        """How many numbers the joint state has."""
        self.weights.done()

    @np.errstate(invalid="ignore", over="ignore")  # what may overflow is no number, and lies in no box
    def step(self, state: Interval, symbols: Array) -> Interval:
        """(B,size) the state after these symbols (B,)."""
        D, ops = self.width, self.ops
        before = [state[:, at : at + D] for at in range(0, self.size, D)]
        x, after = self.leaves[symbols], []
        for k, (reads, keeps) in enumerate(self._cells):
            h = before[k * self.parts]
            both = [ops.linear_of_both(x, *reads[i], h, *keeps[i]) for i in range(self._sums)]
            if self.cell == "rnn":
                x = ops.tanh(both[0])
            elif self.cell == "gru":
                r, z = map(ops.sigmoid, both)
                n = ops.tanh(ops.add(ops.linear(x, *reads[2]), ops.multiply(r, ops.linear(h, *keeps[2]))))
                x = ops.lerp(n, h, z)
            else:
                i, f, g, o = both
                c = ops.add(ops.multiply(ops.sigmoid(f), before[k * 2 + 1]), ops.multiply(ops.sigmoid(i), ops.tanh(g)))
                x = ops.multiply(ops.sigmoid(o), ops.tanh(c))
                after += [x, c]
                continue
            after.append(x)
        return concatenate(after, -1)

    def answer(self, state: Interval) -> Interval:
        """(B,E) the logits after a state: its last layer's h is what the head reads."""
        at = (self.layers - 1) * self.parts * self.width
        return self.head(state[:, at : at + self.width])
