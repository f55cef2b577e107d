"""A theorem about a GRU of one layer: boxes of h, which grow until they hold what they are led into."""

from __future__ import annotations

import numpy as np

from ..checker.intervals import Array
from .coq import listed, ns, pairs, whole_numbers
from .family import Certificate, Family
from .recurrences import NEAR_TANH, SPARE, U, boxes, gates, grown, names, refusal, sigmoid, theorem, times

THEOREM = theorem("gru_", "places targets")


def network(certificate: Certificate, numbers: dict[str, Array], scale: int) -> str:
    """Three gates, each as the network it would be."""
    del certificate
    return f"{gates(numbers, scale, 3)}Definition weights : gru := Gru gate_0 gate_1 gate_2.\n"


def proof(certificate: Certificate, numbers: dict[str, Array], scale: int) -> str:
    """Places and targets."""
    delta, state, low, high = boxes(certificate)
    low, high, targets = grown(gru_image, numbers, delta, state, low, high)
    ends = whole_numbers(np.stack([low, high], -1), scale)
    places = [f"({q}, {pairs(box)})" for q, box in zip(state, ends, strict=True)]
    return f"""Definition places : list place := {listed(places)}.

Definition targets : list (list nat) := {listed(map(ns, targets))}.

Lemma checked : gru_check weights claim places targets = true.
Proof. vm_cast_no_check (eq_refl true). Qed.
"""


def gru_image(numbers: dict[str, Array], low: Array, high: Array, symbol: int) -> tuple[Array, Array]:
    """What a box of h is led into, by intervals and with all that the arithmetic may add."""
    D, W, keeps = len(low), numbers["reads"], numbers["keeps"]
    x, centre, radius, most = numbers["embedding"][symbol], (low + high) / 2, (high - low) / 2, np.maximum(-low, high)
    read, kept = W @ x + numbers["bias"], keeps @ centre + numbers["other_bias"]
    size_read, size_kept = abs(W) @ abs(x) + abs(numbers["bias"]), abs(keeps) @ most + abs(numbers["other_bias"])
    terms, off = len(x) + D + 3, abs(keeps) @ radius

    def squashed(k: slice) -> tuple[Array, Array]:
        reach = off[k] + terms * U * (size_read + size_kept)[k]
        return sigmoid((read + kept)[k] - reach) - NEAR_TANH, sigmoid((read + kept)[k] + reach) + NEAR_TANH

    r, z, last = squashed(slice(D)), squashed(slice(D, 2 * D)), slice(2 * D, None)
    reach = off[last] + terms * U * size_kept[last]
    product = times(r, (kept[last] - reach, kept[last] + reach))
    slack = terms * U * size_read[last] + 4 * U * (size_read + size_kept)[last] + SPARE
    n = np.tanh(read[last] + product[0] - slack) - NEAR_TANH, np.tanh(read[last] + product[1] + slack) + NEAR_TANH
    below, above = ([(1 - end) * a + end * b for end in z] for a, b in zip(n, (low, high), strict=True))
    return np.minimum(*below) - 2 * SPARE, np.maximum(*above) + 2 * SPARE


FAMILY = Family("recurrence-boxes", "Gru", lambda each: refusal(each, ["gru"]), names, network, proof, THEOREM)
