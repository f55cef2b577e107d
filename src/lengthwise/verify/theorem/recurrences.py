"""Theorems about an RNN, a GRU or an LSTM of one layer: boxes of its state, and which box each symbol leads one to.

The boxes are the certificate's, rounded outwards. The checker's own step says what they are led into; those of gates
grow until they hold that, with what Coq allows for beside it.

Shapes: N boxes, S symbols, n numbers of the state (h, and c for the LSTM), D width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checker.intervals import Array, Interval
from ..checker.recurrence import Recurrence
from ..checker.weights import DEFAULTS
from .coq import listed, ns, pair, pairs, rows, whole_numbers, z, zs
from .family import Certificate, Family, common_refusal

GRID = 2.0**-32
NEAR_TANH = 2.0**-19
SPARE = 1e-4
"""More than Coq allows for and the checker does not where sums are of hundreds, and what boxes grow by beyond need."""
ROUNDS = 100
FURTHEST = 64.0
"""tanh is 1 or -1 there, as far as any check can see."""
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


def refusal(certificate: Certificate, cell: str) -> str | None:
    """Why a certificate's network is not a plain recurrence of one layer of such cells, or None."""
    config = certificate["model"]["config"]
    if certificate["kind"] != "recurrence-boxes" or config["mixer"] != {"name": cell}:
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


def cell_of(certificate: Certificate, numbers: dict[str, Array]) -> Recurrence:
    """The cell as the checker reads it. What the head makes of its state plays no part here."""
    (S, D), mixer, block = numbers["embedding"].shape, certificate["model"]["config"]["mixer"], {"kind": "bare"}
    own = {"width": D, "vocab_size": S, "mixer": mixer, "block": block, "depth": {"name": "fixed", "layers": 1}}
    weights = {NAMES[part]: x.astype(np.float32) for part, x in numbers.items() if not part.startswith("head")}
    weights["head.weight"] = np.zeros((S, D), np.float32)
    return Recurrence({**DEFAULTS, **own, "final_norm": False, "head_bias": False}, weights)


def boxes(certificate: dict[str, Any]) -> tuple[Array, Array, Interval]:
    """The machine's table, the state of each box, and the boxes, rounded outwards."""
    sets = certificate["proof"]["sets"]
    centre, radius = (np.array([entry[part] for entry in sets]) for part in ("centre", "radius"))
    low, high = np.floor((centre - radius) / GRID) * GRID, np.ceil((centre + radius) / GRID) * GRID
    return np.array(certificate["claim"]["delta"]), np.array([entry["state"] for entry in sets]), Interval(low, high)


def targets_of(delta: Array, state: Array, held: Interval, images: Interval) -> Array:
    """(N,S) for every box and symbol the box of the machine's next state that holds its image (N·S,n) best."""
    N, S = len(state), delta.shape[1]
    low, high = (x.reshape(N, S, 1, -1) for x in (images.lo, images.hi))
    beyond = np.maximum(held.lo - low, high - held.hi).max(-1)
    return np.where(state == delta[state][..., None], beyond, np.inf).argmin(-1)


def rnn_network(certificate: Certificate, numbers: dict[str, Array], scale: int) -> str:
    """One layer: embeddings, units, rows of the head."""
    del certificate
    embeddings, head = shared(numbers, scale)
    return f"Definition weights : network := Network {scale}\n  {embeddings}\n  {units(numbers, scale)}\n  {head}.\n"


def rnn_proof(certificate: Certificate, numbers: dict[str, Array], scale: int) -> str:
    """Regions, which are boxes of h and of what is under its tanh; and targets."""
    delta, state, held = boxes(certificate)
    N, S = len(state), delta.shape[1]
    network = cell_of(certificate, numbers)
    images = network.step(held[np.repeat(np.arange(N), S)], np.tile(np.arange(S), N))
    targets = targets_of(delta, state, held, images)
    drive = np.stack([drives(held.lo + NEAR_TANH), -drives(-(held.hi - NEAR_TANH))], -1)
    drive[~np.isin(np.arange(N), targets)] = [GRID, 0]  # empty
    ends = np.stack([held.lo, held.hi], -1)
    each = zip(state, whole_numbers(drive, scale), whole_numbers(ends, scale), strict=True)
    return proved("regions", "region", [f"Region {q} {pairs(d)}\n    {pairs(b)}" for q, d, b in each], targets, "")


def drives(low: Array) -> Array:
    """The least x with tanh x >= low, and a little more; far below where every x is."""
    spare = np.where(low < -1 - 1e-14, -FURTHEST, np.arctanh(np.clip(low + 1e-10, -1 + 2e-10, 1 - 1e-15)))
    return np.ceil(spare / GRID) * GRID


def gated_network(certificate: Certificate, numbers: dict[str, Array], scale: int) -> str:
    """Each gate of a cell, as the network it would be."""
    cell = certificate["model"]["config"]["mixer"]["name"]
    embeddings, head = shared(numbers, scale)
    D = numbers["keeps"].shape[1]
    gates = [units(numbers, scale, slice(k, k + D)) for k in range(0, len(numbers["keeps"]), D)]
    return (
        f"Definition table : list (list Z) := {embeddings}.\n\n"
        f"Definition rows : list (list Z * Z) := {head}.\n\n"
        + "".join(
            f"Definition gate_{k} : network := Network {scale} table\n  {u} rows.\n\n" for k, u in enumerate(gates)
        )
        + f"Definition weights : {cell} := {cell.capitalize()} {' '.join(f'gate_{k}' for k in range(len(gates)))}.\n"
    )


def gated_proof(certificate: Certificate, numbers: dict[str, Array], scale: int) -> str:
    """Places, which are boxes of the state; and targets."""
    delta, state, held = boxes(certificate)
    cell, D = certificate["model"]["config"]["mixer"]["name"], numbers["keeps"].shape[1]
    held, targets = grown(cell_of(certificate, numbers), delta, state, held)
    ends = whole_numbers(np.stack([held.lo, held.hi], -1), scale)
    if cell == "gru":
        places = [f"({q}, {pairs(box)})" for q, box in zip(state, ends, strict=True)]
    else:
        h_and_c = [zip(each[:D], each[D:], strict=True) for each in ends]
        places = [
            f"Place {q} {zs(f'({pair(h)}, {pair(c)})' for h, c in box)}" for q, box in zip(state, h_and_c, strict=True)
        ]
    return proved("places", "place", places, targets, f"{cell}_")


def grown(network: Recurrence, delta: Array, state: Array, held: Interval) -> tuple[Interval, Array]:
    """Boxes that hold their images with all that Coq allows for, from the certificate's; and where each is led to."""
    N, S = len(state), delta.shape[1]
    box, symbol = np.repeat(np.arange(N), S), np.tile(np.arange(S), N)
    middle = network.step(Interval.of(held.mid)[box], symbol)
    targets = targets_of(delta, state, held, Interval.of(middle.mid))
    into = targets.ravel()
    for _ in range(ROUNDS):
        image = network.step(held[box], symbol).widened(SPARE)
        short = ~image.inside(Interval(held.lo + GRID, held.hi - GRID)[into]).all(1)
        if not short.any() or not np.isfinite([image.lo, image.hi]).all():  # of boxes that grow for ever Coq says no
            break
        low, high = held.lo.copy(), held.hi.copy()
        np.minimum.at(low, into[short], np.floor((image.lo[short] - SPARE) / GRID) * GRID)
        np.maximum.at(high, into[short], np.ceil((image.hi[short] + SPARE) / GRID) * GRID)
        held = Interval(low, high)
    return held, targets


def proved(noun: str, type_: str, sets: list[str], targets: Array, prefix: str) -> str:
    """The sets and the targets in Coq's words, with the lemma that they are closed."""
    return f"""Definition {noun} : list {type_} := {listed(sets)}.

Definition targets : list (list nat) := {listed(map(ns, targets))}.

Lemma checked : {prefix}check weights claim {noun} targets = true.
Proof. vm_cast_no_check (eq_refl true). Qed.
"""


def family(cell: str, file: str, network: Any, proof: Any, conclusion: str) -> Family:
    return Family("recurrence-boxes", file, lambda each: refusal(each, cell), names, network, proof, conclusion)


FAMILIES = (
    family("rnn", "Recurrence", rnn_network, rnn_proof, theorem("", "regions targets")),
    family("gru", "Gru", gated_network, gated_proof, theorem("gru_", "places targets")),
    family("lstm", "Lstm", gated_network, gated_proof, theorem("lstm_", "places targets")),
)
