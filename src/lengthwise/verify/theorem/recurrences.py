"""What theorems about recurrences of one layer have in common: their weights, and boxes of their state.

The boxes are the certificate's, rounded outwards; which box a symbol leads to is proposed in float64.

Shapes: N boxes, D numbers of the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..checker.intervals import Array
from .coq import listed, rows, whole_numbers, z, zs
from .family import Certificate, common_refusal

GRID = 2.0**-32
NEAR_TANH = 2.0**-19
U = 2.0**-24
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


def names(certificate: Certificate) -> dict[str, str]:
    """The parts of a cell and of what stands about it, as the weights call them."""
    del certificate
    return NAMES


def refusal(certificate: Certificate, cells: Sequence[str]) -> str | None:
    """Why a certificate's network is not a plain recurrence of one layer with one of these cells, or None."""
    config = certificate["model"]["config"]
    if certificate["kind"] != "recurrence-boxes" or config["mixer"] not in [{"name": cell} for cell in cells]:
        about = f"{config['mixer']} with a proof by {certificate['kind']}"
        return f"theorems are of RNNs and LSTMs of one layer so far, and this is {about}"
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


def boxes(certificate: dict[str, Any]) -> tuple[Array, Array, Array, Array]:
    """The machine's table, the state of each box, and the ends of the boxes, rounded outwards."""
    sets = certificate["proof"]["sets"]
    centre, radius = (np.array([entry[part] for entry in sets]) for part in ("centre", "radius"))
    low, high = np.floor((centre - radius) / GRID) * GRID, np.ceil((centre + radius) / GRID) * GRID
    return np.array(certificate["claim"]["delta"]), np.array([entry["state"] for entry in sets]), low, high
