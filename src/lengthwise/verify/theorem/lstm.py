"""A theorem about an LSTM of one layer: boxes of h and of c, which grow until they hold what they are led into."""

from __future__ import annotations

import numpy as np

from ..checker.intervals import Array
from .coq import listed, ns, pair, whole_numbers, zs
from .family import Certificate, Family
from .recurrences import NEAR_TANH, SPARE, U, boxes, gates, grown, names, refusal, sigmoid, theorem, times

THEOREM = theorem("lstm_", "places targets")


def network(certificate: Certificate, numbers: dict[str, Array], scale: int) -> str:
    """Four gates, each as the network it would be."""
    del certificate
    return f"{gates(numbers, scale, 4)}Definition weights : lstm := Lstm gate_0 gate_1 gate_2 gate_3.\n"


def proof(certificate: Certificate, numbers: dict[str, Array], scale: int) -> str:
    """Places and targets."""
    delta, state, low, high = boxes(certificate)
    low, high, targets = grown(lstm_image, numbers, delta, state, low, high)
    D = numbers["keeps"].shape[1]
    ends = whole_numbers(np.stack([low, high], -1), scale)
    h_and_c = [[*zip(each[:D], each[D:], strict=True)] for each in ends]
    places = [f"Place {q} {zs(f'({pair(h)}, {pair(c)})' for h, c in b)}" for q, b in zip(state, h_and_c, strict=True)]
    return f"""Definition places : list place := {listed(places)}.

Definition targets : list (list nat) := {listed(map(ns, targets))}.

Lemma checked : lstm_check weights claim places targets = true.
Proof. vm_cast_no_check (eq_refl true). Qed.
"""


def lstm_image(numbers: dict[str, Array], low: Array, high: Array, symbol: int) -> tuple[Array, Array]:
    """What a box of h and c is led into, by intervals and with all that the arithmetic may add."""
    D = numbers["keeps"].shape[1]
    centre, radius, x = (low + high)[:D] / 2, (high - low)[:D] / 2, numbers["embedding"][symbol]
    middle = numbers["reads"] @ x + numbers["keeps"] @ centre + numbers["bias"] + numbers["other_bias"]
    size = abs(numbers["reads"]) @ abs(x) + abs(numbers["bias"]) + abs(numbers["other_bias"])
    size = size + abs(numbers["keeps"]) @ np.maximum(abs(low), abs(high))[:D]
    off = abs(numbers["keeps"]) @ radius + (len(x) + D + 3) * U * size
    found = []
    for k, squash in enumerate([sigmoid, sigmoid, np.tanh, sigmoid]):
        z, r = middle[k * D : (k + 1) * D], off[k * D : (k + 1) * D]
        found.append((squash(z - r) - NEAR_TANH, squash(z + r) + NEAR_TANH))
    i, f, g, o = found
    kept, offered = times(f, (low[D:], high[D:])), times(i, g)
    c = kept[0] + offered[0] - SPARE, kept[1] + offered[1] + SPARE
    h = times(o, (np.tanh(c[0]) - NEAR_TANH, np.tanh(c[1]) + NEAR_TANH))
    return np.concatenate([h[0] - SPARE, c[0]]), np.concatenate([h[1] + SPARE, c[1]])


FAMILY = Family("recurrence-boxes", "Lstm", lambda each: refusal(each, ["lstm"]), names, network, proof, THEOREM)
