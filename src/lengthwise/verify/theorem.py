"""A certificate as a theorem for Coq: these float32 weights answer every word, of every length, as the machine does.

    write_theorem(certificate, "model/", "proof/")        then, in proof/:  make

The folder holds the development (`theorem/` of this repository), and three files about this network: its weights as
exact numbers, its machine, and boxes of its state with the theorem. The boxes are the certificate's, rounded outwards;
which box a symbol leads to is proposed here in float64. Nothing of this file is believed: Coq checks every box.

Shapes: N boxes, D numbers of the state.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Error
from ..files import whole_folder, write_text
from .checker.check import check
from .checker.intervals import Array
from .checker.weights import digest, read_model

PACKAGE = Path(__file__).parents[1]
PLACES = (PACKAGE / "theorem", PACKAGE.parents[1] / "theorem")
FILES = ("Words", "Rounding", "Dyadic", "Tanh", "Recurrence")
"""The development, in the order in which its files need one another."""
LEAST_SCALE = 44
GRID = 2.0**-32
NEAR_TANH = 2.0**-19
U = 2.0**-24
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


def write_theorem(certificate: dict[str, Any], model: str | Path, out: str | Path) -> Path:
    """The folder, in which `make` lets Coq check the theorem; refused where no theorem speaks of such a network."""
    check(certificate, model)
    if (why := refusal(certificate)) is not None:
        raise Error(f"No theorem is written: {why}.")
    tensors = read_model(Path(model))[1]
    files = statement(certificate, tensors)
    places = [place for place in PLACES if place.is_dir()]
    if not places:
        raise Error(f"The Coq development lies in neither {PLACES[0]} nor {PLACES[1]}.")
    with whole_folder(Path(out)) as folder:
        for name in FILES:
            shutil.copyfile(places[0] / f"{name}.v", folder / f"{name}.v")
        for name, text in files.items():
            write_text(folder / name, text)
    return Path(out)


def refusal(certificate: dict[str, Any]) -> str | None:
    """Why no theorem speaks of this certificate's network, or None."""
    claim, config = certificate["claim"], certificate["model"]["config"]
    if certificate["kind"] != "recurrence-boxes" or config["mixer"] != {"name": "rnn"}:
        return f"theorems are of RNNs of one tanh layer so far, and this is a proof by {certificate['kind']}"
    if config["depth"].get("layers") != 1:
        return "theorems are of RNNs of one layer so far"
    if certificate["arithmetic"] != "float32":
        return "theorems are about float32, and this network is proved for float64 alone"
    plain = {"embedding_scale": 1.0, "final_norm": False, "head": "linear", "head_bias": True}
    if other := [name for name, value in plain.items() if config[name] != value]:
        return f"theorems are of plain RNNs so far, and its config sets {', '.join(other)}"
    if not all(claim["asked"]) or isinstance(claim["answers"][0], list):
        return "theorems are of machines with one answer after every word so far"
    return None


def statement(certificate: dict[str, Any], tensors: dict[str, Array]) -> dict[str, str]:
    """The files about one network, by name."""
    weights = {name: tensors.get(key, tensors["embedding.weight"]) for name, key in NAMES.items()}
    numbers = {name: x.astype(np.float64) for name, x in weights.items()}
    scale = max(LEAST_SCALE, *(bits(x) for x in numbers.values()))
    sums = ",\n    ".join(f"{NAMES[name]} {digest(x)}" for name, x in weights.items())
    name = certificate["digest"][:16]
    claim, sets = certificate["claim"], certificate["proof"]["sets"]
    delta, state = np.array(claim["delta"]), np.array([entry["state"] for entry in sets])
    centre, radius = (np.array([entry[part] for entry in sets]) for part in ("centre", "radius"))
    low, high = np.floor((centre - radius) / GRID) * GRID, np.ceil((centre + radius) / GRID) * GRID
    targets = proposed(numbers, delta, state, low, high)
    drive = np.stack([drives(low + NEAR_TANH), -drives(-(high - NEAR_TANH))], -1)
    drive[~np.isin(np.arange(len(sets)), targets)] = [GRID, 0]  # empty
    whole = lambda x: whole_numbers(x, scale)  # noqa: E731
    units = [
        f"Unit {zs(a)}\n    {zs(b)}\n    {z(c)} {z(d)}"
        for a, b, c, d in zip(*(whole(numbers[n]) for n in ("reads", "keeps", "bias", "other_bias")), strict=True)
    ]
    rows = [f"({zs(w)}, {z(b)})" for w, b in zip(whole(numbers["head"]), whole(numbers["head_bias"]), strict=True)]
    network = f"""(** The weights, k 2^-{scale} each. They are exactly the float32 numbers with these digests:
    {sums}. *)

{HEAD}Definition weights : network := Network {scale}
  {listed(zs(x) for x in whole(numbers["embedding"]))}
  {listed(units)}
  {listed(rows)}.
"""
    symbols = ", ".join(claim["symbols"])
    machine = f"""(** The machine. Its symbols are {symbols}. *)

{HEAD}Definition claim : machine := Machine {claim["start"]} {delta.shape[1]}
  {listed(ns(row) for row in delta)}
  {ns(claim["answers"])}.
"""
    boxes = [
        f"Region {q} {pairs(d)}\n    {pairs(b)}"
        for q, d, b in zip(state, whole(drive), whole(np.stack([low, high], -1)), strict=True)
    ]
    theorem = f"""(** {certificate["words"]} *)

{HEAD}From Lengthwise Require Import Network Claim.

Definition regions : list region := {listed(boxes)}.

Definition targets : list (list nat) := {listed(ns(row) for row in targets)}.

Lemma checked : check weights claim regions targets = true.
Proof. vm_cast_no_check (eq_refl true). Qed.

(** For every word that is not empty, every state and every logits that the arithmetic allows after it, the logit of the
    machine's answer is above every other. (The name is that of the certificate, by its digest.) *)
Theorem certificate_{name} : right_at_every_length weights claim.
Proof. exact (check_is_sound weights claim regions targets checked). Qed.

(** And no product and no partial sum overflows binary32, after any word and in any order. *)
Theorem no_overflow_{name} : overflows_nowhere weights claim.
Proof. exact (check_excludes_overflow weights claim regions targets checked). Qed.

Print Assumptions certificate_{name}.
Print Assumptions no_overflow_{name}.
"""
    return {"Network.v": network, "Claim.v": machine, "Theorem.v": theorem, "Makefile": MAKEFILE}


MAKEFILE = """# Lets Coq 8.16 check the theorem, with Flocq and Interval (Debian: coq libcoq-flocq libcoq-interval).
Theorem.vo: Network.vo Claim.vo
Network.vo Claim.vo: Recurrence.vo
Recurrence.vo: Words.vo Tanh.vo
Tanh.vo: Dyadic.vo
Dyadic.vo: Rounding.vo

%.vo: %.v
\tcoqc -q -Q . Lengthwise $<
"""
HEAD = """From Coq Require Import ZArith List.
From Lengthwise Require Import Recurrence.
Import ListNotations.

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


def bits(x: Array) -> int:
    """The least p for which all of these numbers are whole multiples of 2^-p."""
    mantissa, exponent = np.frexp(x[x != 0])
    whole = (mantissa * 2.0**53).astype(np.int64)
    zeros = np.log2((whole & -whole).astype(np.float64)).astype(np.int64)
    return int((53 - exponent - zeros).max(initial=0))


def whole_numbers(x: Array, scale: int) -> list[Any]:
    """x 2^scale, exactly."""
    if x.ndim > 1:
        return [whole_numbers(row, scale) for row in x]
    fractions = [number.as_integer_ratio() for number in x.tolist()]
    return [numerator * (2**scale // denominator) for numerator, denominator in fractions]


def z(k: int) -> str:
    return f"({k})%Z"


def zs(row: Iterable[int]) -> str:
    return f"[{'; '.join(map(str, row))}]%Z"


def ns(row: Sequence[int]) -> str:
    return f"[{'; '.join(str(int(k)) for k in row)}]"


def pairs(row: Iterable[Sequence[int]]) -> str:
    return f"[{'; '.join(f'({a}, {b})' for a, b in row)}]%Z"


def listed(entries: Iterable[str]) -> str:
    return "[" + ";\n  ".join(entries) + "]"
