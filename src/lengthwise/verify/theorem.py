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
FILES = ("Words", "Rounding", "Dyadic", "Tanh", "Recurrence", "Lstm")
"""The development, in the order in which its files need one another."""
LEAST_SCALE = 44
GRID = 2.0**-32
NEAR_TANH = 2.0**-19
U = 2.0**-24
SPARE = 1e-6
"""More than products and sums of numbers up to 4 are rounded by, and what boxes grow by beyond need."""
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


def refusal(certificate: dict[str, Any], cells: Sequence[str] = ("rnn", "lstm")) -> str | None:
    """Why no theorem speaks of this certificate's network, or None. `cells`: those that are spoken of."""
    claim, config = certificate["claim"], certificate["model"]["config"]
    if certificate["kind"] != "recurrence-boxes" or config["mixer"] not in [{"name": cell} for cell in cells]:
        about = f"{config['mixer']} with a proof by {certificate['kind']}"
        return f"theorems are of RNNs and LSTMs of one layer so far, and this is {about}"
    if config["depth"].get("layers") != 1:
        return "theorems are of networks of one layer so far"
    if certificate["arithmetic"] != "float32":
        return "theorems are about float32, and this network is proved for float64 alone"
    plain = {"embedding_scale": 1.0, "final_norm": False, "head": "linear", "head_bias": True}
    if other := [name for name, value in plain.items() if config[name] != value]:
        return f"theorems are of plain recurrences so far, and its config sets {', '.join(other)}"
    if not all(claim["asked"]) or isinstance(claim["answers"][0], list):
        return "theorems are of machines with one answer after every word so far"
    return None


def statement(certificate: dict[str, Any], tensors: dict[str, Array]) -> dict[str, str]:
    """The files about one network, by name."""
    weights = {name: tensors.get(key, tensors["embedding.weight"]) for name, key in NAMES.items()}
    numbers = {name: x.astype(np.float64) for name, x in weights.items()}
    scale = max(LEAST_SCALE, *(bits(x) for x in numbers.values()))
    lstm = certificate["model"]["config"]["mixer"]["name"] == "lstm"
    sums = ",\n    ".join(f"{NAMES[name]} {digest(x)}" for name, x in weights.items())
    network = f"""(** The weights, k 2^-{scale} each. They are exactly the float32 numbers with these digests:
    {sums}. *)

{HEAD}{(_lstm_text if lstm else _rnn_text)(numbers, scale)}"""
    claim = certificate["claim"]
    machine = f"""(** The machine. Its symbols are {", ".join(claim["symbols"])}. *)

{HEAD}Definition claim : machine := Machine {claim["start"]} {len(claim["symbols"])}
  {listed(ns(row) for row in claim["delta"])}
  {ns(claim["answers"])}.
"""
    name = certificate["digest"][:16]
    theorem = f"""(** {certificate["words"]} *)

{HEAD}From Lengthwise Require Import Network Claim.

{(_lstm_proof if lstm else _rnn_proof)(certificate, numbers, scale)}
(** For every word that is not empty, every state and every logits that the arithmetic allows after it, the logit of the
    machine's answer is above every other. (The name is that of the certificate, by its digest.) *)
{(LSTM_THEOREM if lstm else RNN_THEOREM).replace("NAME", name)}"""
    return {"Network.v": network, "Claim.v": machine, "Theorem.v": theorem, "Makefile": MAKEFILE}


def _units(numbers: dict[str, Array], scale: int, rows: slice = slice(None)) -> str:
    parts = (whole_numbers(numbers[name][rows], scale) for name in ("reads", "keeps", "bias", "other_bias"))
    return listed(f"Unit {zs(a)}\n    {zs(b)}\n    {z(c)} {z(d)}" for a, b, c, d in zip(*parts, strict=True))


def _shared(numbers: dict[str, Array], scale: int) -> tuple[str, str]:
    """The embeddings, and the rows of the head."""
    head = zip(whole_numbers(numbers["head"], scale), whole_numbers(numbers["head_bias"], scale), strict=True)
    embeddings = listed(zs(x) for x in whole_numbers(numbers["embedding"], scale))
    return embeddings, listed(f"({zs(w)}, {z(b)})" for w, b in head)


def _rnn_text(numbers: dict[str, Array], scale: int) -> str:
    embeddings, head = _shared(numbers, scale)
    units = _units(numbers, scale)
    return f"Definition weights : network := Network {scale}\n  {embeddings}\n  {units}\n  {head}.\n"


def _lstm_text(numbers: dict[str, Array], scale: int) -> str:
    embeddings, head = _shared(numbers, scale)
    D = numbers["keeps"].shape[1]
    gates = [f"(of_gate {_units(numbers, scale, slice(k * D, (k + 1) * D))})" for k in range(4)]
    return (
        f"Definition table : list (list Z) := {embeddings}.\n\n"
        f"Definition rows : list (list Z * Z) := {head}.\n\n"
        f"Definition of_gate (u : list unit) : network := Network {scale} table u rows.\n\n"
        f"Definition weights : lstm := Lstm\n  {chr(10).join(gates)}.\n"
    )


def _boxes(certificate: dict[str, Any]) -> tuple[Array, Array, Array, Array]:
    """The machine's table, the state of each box, and the ends of the boxes, rounded outwards."""
    sets = certificate["proof"]["sets"]
    centre, radius = (np.array([entry[part] for entry in sets]) for part in ("centre", "radius"))
    low, high = np.floor((centre - radius) / GRID) * GRID, np.ceil((centre + radius) / GRID) * GRID
    return np.array(certificate["claim"]["delta"]), np.array([entry["state"] for entry in sets]), low, high


def _rnn_proof(certificate: dict[str, Any], numbers: dict[str, Array], scale: int) -> str:
    delta, state, low, high = _boxes(certificate)
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


def _lstm_proof(certificate: dict[str, Any], numbers: dict[str, Array], scale: int) -> str:
    delta, state, low, high = _boxes(certificate)
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


RNN_THEOREM = """Theorem certificate_NAME : right_at_every_length weights claim.
Proof. exact (check_is_sound weights claim regions targets checked). Qed.

(** And no product and no partial sum overflows binary32, after any word and in any order. *)
Theorem no_overflow_NAME : overflows_nowhere weights claim.
Proof. exact (check_excludes_overflow weights claim regions targets checked). Qed.

Print Assumptions certificate_NAME.
Print Assumptions no_overflow_NAME.
"""
LSTM_THEOREM = """Theorem certificate_NAME : lstm_right_at_every_length weights claim.
Proof. exact (lstm_check_is_sound weights claim places targets checked). Qed.

Print Assumptions certificate_NAME.
"""
MAKEFILE = """# Lets Coq 8.16 check the theorem, with Flocq and Interval (Debian: coq libcoq-flocq libcoq-interval).
Theorem.vo: Network.vo Claim.vo
Network.vo Claim.vo: Lstm.vo
Lstm.vo: Recurrence.vo
Recurrence.vo: Words.vo Tanh.vo
Tanh.vo: Dyadic.vo
Dyadic.vo: Rounding.vo

%.vo: %.v
\tcoqc -q -Q . Lengthwise $<
"""
HEAD = """From Coq Require Import ZArith List.
From Lengthwise Require Import Recurrence Lstm.
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


def zs(row: Iterable[int | str]) -> str:
    return f"[{'; '.join(map(str, row))}]%Z"


def ns(row: Sequence[int]) -> str:
    return f"[{'; '.join(str(int(k)) for k in row)}]"


def pairs(row: Iterable[Sequence[int]]) -> str:
    return zs(map(pair, row))


def pair(ends: Sequence[int]) -> str:
    return f"({ends[0]}, {ends[1]})"


def listed(entries: Iterable[str]) -> str:
    return "[" + ";\n  ".join(entries) + "]"
