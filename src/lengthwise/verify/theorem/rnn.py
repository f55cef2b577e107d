"""A theorem about an RNN of one layer: boxes of h, and of what is under its tanh."""

from __future__ import annotations

import numpy as np

from ..checker.intervals import Array
from .coq import listed, ns, pairs, whole_numbers
from .family import Certificate, Family
from .recurrences import GRID, NEAR_TANH, U, boxes, names, refusal, shared, theorem, units

FURTHEST = 64.0
"""tanh is 1 or -1 there, as far as any check can see."""
THEOREM = theorem("", "regions targets")


def network(certificate: Certificate, numbers: dict[str, Array], scale: int) -> str:
    """One layer: embeddings, units, rows of the head."""
    del certificate
    embeddings, head = shared(numbers, scale)
    return f"Definition weights : network := Network {scale}\n  {embeddings}\n  {units(numbers, scale)}\n  {head}.\n"


def proof(certificate: Certificate, numbers: dict[str, Array], scale: int) -> str:
    """Regions and targets."""
    delta, state, low, high = boxes(certificate)
    targets = proposed(numbers, delta, state, low, high)
    drive = np.stack([drives(low + NEAR_TANH), -drives(-(high - NEAR_TANH))], -1)
    drive[~np.isin(np.arange(len(state)), targets)] = [GRID, 0]  # empty
    ends = zip(state, whole_numbers(drive, scale), whole_numbers(np.stack([low, high], -1), scale), strict=True)
    regions = [f"Region {q} {pairs(d)}\n    {pairs(b)}" for q, d, b in ends]
    return f"""Definition regions : list region := {listed(regions)}.

Definition targets : list (list nat) := {listed(map(ns, targets))}.

Lemma checked : check weights claim regions targets = true.
Proof. vm_cast_no_check (eq_refl true). Qed.
"""


def drives(low: Array) -> Array:
    """The least x with tanh x >= low, and a little more; far below where every x is."""
    spare = np.where(low < -1 - 1e-14, -FURTHEST, np.arctanh(np.clip(low + 1e-10, -1 + 2e-10, 1 - 1e-15)))
    return np.ceil(spare / GRID) * GRID


def proposed(numbers: dict[str, Array], delta: Array, state: Array, low: Array, high: Array) -> list[list[int]]:
    """For every box and symbol the box of the machine's next state that holds its image best."""
    x, U_, W = numbers["embedding"], numbers["keeps"], numbers["reads"]
    centre, radius, size = (low + high) / 2, (high - low) / 2, np.maximum(abs(low), abs(high))
    terms = x.shape[1] + len(U_) + 2
    found = []
    for i, q in enumerate(state):
        row = []
        for s, to in enumerate(delta[q]):
            middle = W @ x[s] + U_ @ centre[i] + numbers["bias"] + numbers["other_bias"]
            reach = abs(W) @ abs(x[s]) + abs(U_) @ size[i] + abs(numbers["bias"]) + abs(numbers["other_bias"])
            off = abs(U_) @ radius[i] + (terms + 1) * U * reach
            below, above = np.tanh(middle - off) - NEAR_TANH, np.tanh(middle + off) + NEAR_TANH
            slack = np.minimum(below - low, high - above).min(1)
            slack[state != to] = -np.inf
            row.append(int(slack.argmax()))
        found.append(row)
    return found


FAMILY = Family("recurrence-boxes", "Recurrence", lambda each: refusal(each, ["rnn"]), names, network, proof, THEOREM)
