"""What theorems about recurrences of one layer have in common: their weights, and boxes of their state.

The boxes are the certificate's, rounded outwards; which box a symbol leads to is proposed in float64.

Shapes: N boxes, D numbers of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..checker.intervals import Array
from .coq import listed, rows, whole_numbers, z, zs
from .family import Certificate, common_refusal

GRID = 2.0**-32
NEAR_TANH = 2.0**-19
U = 2.0**-24
SPARE = 1e-6
"""More than products and sums of numbers up to 4 are rounded by, and what boxes grow by beyond need."""
ROUNDS = 100
Image = Callable[[dict[str, Array], Array, Array, int], tuple[Array, Array]]
"""From the weights, the ends of a box and a symbol to the ends of what it is led into, with all that Coq allows for."""
CELL = "depth.layers.0.mixer.cell"
NAMES = {
    "embedding": "embedding.weight",
    "reads": f"{CELL}.weight_ih_l0",
    "keeps": f"{CELL}.weight_hh_l0",
    "bias": f"{CELL}.bias_ih_l0",
    "other_bias": f"{CELL}.bias_hh_l0",
    "head": "head.weight",
    "head_bias": "head.bias",
}


def theorem(prefix: str, arguments: str) -> str:
    """What follows where the check says yes, by the names of the cell's file."""
    return f"""Theorem certificate_NAME : {prefix}right_at_every_length weights claim.
Proof. exact ({prefix}check_is_sound weights claim {arguments} checked). Qed.

(** And no product and no partial sum overflows binary32, after any word and in any order. *)
Theorem no_overflow_NAME : {prefix}overflows_nowhere weights claim.
Proof. exact ({prefix}check_excludes_overflow weights claim {arguments} checked). Qed.

Print Assumptions certificate_NAME.
Print Assumptions no_overflow_NAME.
"""


def names(certificate: Certificate) -> dict[str, str]:
    """The parts of a cell and of what stands about it, as the weights call them."""
    del certificate
    return NAMES


def refusal(certificate: Certificate, cells: Sequence[str]) -> str | None:
    """Why a certificate's network is not a plain recurrence of one layer with one of these cells, or None."""
    config = certificate["model"]["config"]
    if certificate["kind"] != "recurrence-boxes" or config["mixer"] not in [{"name": cell} for cell in cells]:
        about = f"{config['mixer']} with a proof by {certificate['kind']}"
        return f"theorems are of RNNs, GRUs and LSTMs of one layer so far, and this is {about}"
    if config["depth"].get("layers") != 1:
        return "theorems are of networks of one layer so far"
    plain = {"embedding_scale": 1.0, "final_norm": False, "head": "linear", "head_bias": True}
    if other := [name for name, value in plain.items() if config[name] != value]:
        return f"theorems are of plain recurrences so far, and its config sets {', '.join(other)}"
    return common_refusal(certificate)


def units(numbers: dict[str, Array], scale: int, some: slice = slice(None)) -> str:
    """Some rows of a cell's matrices, with their biases."""
    parts = (whole_numbers(numbers[name][some], scale) for name in ("reads", "keeps", "bias", "other_bias"))
    return listed(f"Unit {zs(a)}\n    {zs(b)}\n    {z(c)} {z(d)}" for a, b, c, d in zip(*parts, strict=True))


def shared(numbers: dict[str, Array], scale: int) -> tuple[str, str]:
    """The embeddings, and the rows of the head."""
    embeddings = listed(zs(x) for x in whole_numbers(numbers["embedding"], scale))
    return embeddings, rows(numbers["head"], numbers["head_bias"], scale)


def gates(numbers: dict[str, Array], scale: int, count: int) -> str:
    """Each gate of a cell as the network it would be: defines gate_0, …"""
    embeddings, head = shared(numbers, scale)
    D = numbers["keeps"].shape[1]
    each = [units(numbers, scale, slice(k * D, (k + 1) * D)) for k in range(count)]
    return (
        f"Definition table : list (list Z) := {embeddings}.\n\n"
        f"Definition rows : list (list Z * Z) := {head}.\n\n"
        + "".join(
            f"Definition gate_{k} : network := Network {scale} table\n  {u} rows.\n\n" for k, u in enumerate(each)
        )
    )


def boxes(certificate: dict[str, Any]) -> tuple[Array, Array, Array, Array]:
    """The machine's table, the state of each box, and the ends of the boxes, rounded outwards."""
    sets = certificate["proof"]["sets"]
    centre, radius = (np.array([entry[part] for entry in sets]) for part in ("centre", "radius"))
    low, high = np.floor((centre - radius) / GRID) * GRID, np.ceil((centre + radius) / GRID) * GRID
    return np.array(certificate["claim"]["delta"]), np.array([entry["state"] for entry in sets]), low, high


def grown(
    image_of: Image, numbers: dict[str, Array], delta: Array, state: Array, low: Array, high: Array
) -> tuple[Array, Array, list[list[int]]]:
    """Boxes that hold their images with all that Coq allows for, from the certificate's; and where each is led to."""
    targets = []
    for i, q in enumerate(state):
        row = []
        for s, to in enumerate(delta[q]):
            middle = (low[i] + high[i]) / 2
            image = sum(image_of(numbers, middle, middle, s)) / 2
            beyond = np.maximum(low - image, image - high).max(1)
            beyond[state != to] = np.inf
            row.append(int(beyond.argmin()))
        targets.append(row)
    for _ in range(ROUNDS):
        before = low, high
        low, high = low.copy(), high.copy()
        for i, row in enumerate(targets):
            for s, j in enumerate(row):
                below, above = image_of(numbers, before[0][i], before[1][i], s)
                if (below < low[j] + GRID).any() or (above > high[j] - GRID).any():
                    low[j] = np.minimum(low[j], np.floor((below - SPARE) / GRID) * GRID)
                    high[j] = np.maximum(high[j], np.ceil((above + SPARE) / GRID) * GRID)
        if (low == before[0]).all() and (high == before[1]).all():
            break
    return low, high, targets


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def times(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    ends = np.stack([x * y for x in a for y in b])
    return ends.min(0), ends.max(0)
