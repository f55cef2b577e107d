"""A theorem about an LSTM of one layer: boxes of h and of c, which grow until they hold what they are led into."""

from __future__ import annotations

import numpy as np

from ..checker.intervals import Array
from .coq import listed, ns, pair, whole_numbers, zs
from .family import Certificate, Family
from .recurrences import GRID, NEAR_TANH, U, boxes, names, refusal, shared, units

SPARE = 1e-6
"""More than products and sums of numbers up to 4 are rounded by, and what boxes grow by beyond need."""
ROUNDS = 100
THEOREM = """Theorem certificate_NAME : lstm_right_at_every_length weights claim.
Proof. exact (lstm_check_is_sound weights claim places targets checked). Qed.

Print Assumptions certificate_NAME.
"""


def network(certificate: Certificate, numbers: dict[str, Array], scale: int) -> str:
    """Four gates, each as the network it would be."""
    del certificate
    embeddings, head = shared(numbers, scale)
    D = numbers["keeps"].shape[1]
    gates = [f"(of_gate {units(numbers, scale, slice(k * D, (k + 1) * D))})" for k in range(4)]
    return (
        f"Definition table : list (list Z) := {embeddings}.\n\n"
        f"Definition rows : list (list Z * Z) := {head}.\n\n"
        f"Definition of_gate (u : list unit) : network := Network {scale} table u rows.\n\n"
        f"Definition weights : lstm := Lstm\n  {chr(10).join(gates)}.\n"
    )


def proof(certificate: Certificate, numbers: dict[str, Array], scale: int) -> str:
    """Places and targets."""
    delta, state, low, high = boxes(certificate)
    low, high, targets = grown(numbers, delta, state, low, high)
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
    gates = []
    for k, squash in enumerate([_sigmoid, _sigmoid, np.tanh, _sigmoid]):
        z, r = middle[k * D : (k + 1) * D], off[k * D : (k + 1) * D]
        gates.append((squash(z - r) - NEAR_TANH, squash(z + r) + NEAR_TANH))
    i, f, g, o = gates
    kept, offered = _times(f, (low[D:], high[D:])), _times(i, g)
    c = kept[0] + offered[0] - SPARE, kept[1] + offered[1] + SPARE
    h = _times(o, (np.tanh(c[0]) - NEAR_TANH, np.tanh(c[1]) + NEAR_TANH))
    return np.concatenate([h[0] - SPARE, c[0]]), np.concatenate([h[1] + SPARE, c[1]])


def grown(
    numbers: dict[str, Array], delta: Array, state: Array, low: Array, high: Array
) -> tuple[Array, Array, list[list[int]]]:
    """Boxes that hold their images with all that Coq allows for, from the certificate's; and where each is led to."""
    targets = []
    for i, q in enumerate(state):
        row = []
        for s, to in enumerate(delta[q]):
            middle = (low[i] + high[i]) / 2
            image = sum(lstm_image(numbers, middle, middle, s)) / 2
            beyond = np.maximum(low - image, image - high).max(1)
            beyond[state != to] = np.inf
            row.append(int(beyond.argmin()))
        targets.append(row)
    for _ in range(ROUNDS):
        before = low, high
        low, high = low.copy(), high.copy()
        for i, row in enumerate(targets):
            for s, j in enumerate(row):
                below, above = lstm_image(numbers, before[0][i], before[1][i], s)
                if (below < low[j] + GRID).any() or (above > high[j] - GRID).any():
                    low[j] = np.minimum(low[j], np.floor((below - SPARE) / GRID) * GRID)
                    high[j] = np.maximum(high[j], np.ceil((above + SPARE) / GRID) * GRID)
        if (low == before[0]).all() and (high == before[1]).all():
            break
    return low, high, targets


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _times(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    ends = np.stack([x * y for x in a for y in b])
    return ends.min(0), ends.max(0)


FAMILY = Family("recurrence-boxes", "Lstm", lambda each: refusal(each, ["lstm"]), names, network, proof, THEOREM)
