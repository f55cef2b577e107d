"""A theorem about automata stacked on one another: all places that their entries reach, beside the machine's states."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checker.cascade import KINDS
from ..checker.intervals import Array
from ..checker.network import each_layer
from .coq import listed, ns, pairs, rows, whole_numbers, z, zs
from .family import Certificate, Family, common_refusal

PLAIN = {"name": "block-lrnn", "normalisation": "one-hot", "inputs": "none", "learned_initial": True}
"""Of a mixer, what no theorem speaks of otherwise."""
THEOREM = """Theorem certificate_NAME : stack_right_at_every_length weights claim.
Proof. exact (stack_check_is_sound weights claim tuples checked). Qed.

Print Assumptions certificate_NAME.
"""


def layers_of(certificate: Certificate) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The mixer and the block of each layer."""
    config = certificate["model"]["config"]
    count = config["depth"]["layers"]
    return list(zip(each_layer(config["mixer"], count), each_layer(config["block"], count), strict=True))


def refusal(certificate: Certificate) -> str | None:
    """Why a certificate's network is no stack of automata that choose, or None."""
    config = certificate["model"]["config"]
    for mixer, _ in layers_of(certificate):
        if other := [name for name, value in PLAIN.items() if mixer[name] != value]:
            said = ", ".join(f"{name} {mixer[name]}" for name in other)
            return (
                f"theorems are of automata that tokens add nothing to and that choose so far, and this one has {said}"
            )
    plain = {"embedding_scale": 1.0, "head_bias": True}
    if other := [name for name, value in plain.items() if config[name] != value]:
        return f"theorems are of plain automata so far, and its config sets {', '.join(other)}"
    return common_refusal(certificate)


def names(certificate: Certificate) -> dict[str, str]:
    """The parts of every layer and of what stands about them, as the weights call them."""
    config, found = certificate["model"]["config"], {"embedding": "embedding.weight"}

    def add(part: str, name: str) -> None:
        found.update({part: f"{name}.weight", f"{part} bias": f"{name}.bias"})

    for k, (mixer, block) in enumerate(layers_of(certificate)):
        at = f"depth.layers.{k}.mixer"
        if block["kind"] != "bare":
            add(f"norm {k}", f"{at}_norm")
        for map_ in [""] if mixer["transition"] == "linear" else [".0", ".2"]:
            add(f"transition {k}{map_}", f"{at}.transition{map_}")
        found[f"initial {k}"] = f"{at}.initial"
        if mixer["readout"] == "linear":
            add(f"readout {k}", f"{at}.readout")
    if config["final_norm"]:
        add("norm", "norm")
    if config["head"] == "two-layer":
        add("hidden", "hidden")
    add("head", "head")
    return found


def network(certificate: Certificate, numbers: dict[str, Array], scale: int) -> str:
    """Embeddings, layers, the places before the first symbol, the last norm, the head."""

    def map_of(part: str) -> str:
        return rows(numbers[part], numbers[f"{part} bias"], scale)

    def norm(part: str) -> str:
        if part not in numbers:
            return "None"
        both = zip(*(whole_numbers(numbers[name], scale) for name in (part, f"{part} bias")), strict=True)
        return f"(Some {pairs(both)})"

    layers, first = [], []
    for k, (_, block) in enumerate(layers_of(certificate)):
        x0 = numbers[f"initial {k}"]
        at = np.nonzero(x0)
        values = whole_numbers(x0[at], scale)
        entries = "; ".join(f"({i}, {z(value)})" for i, value in zip(at[0], values, strict=True))
        maps = [map_of(part) for part in numbers if part in [f"transition {k}{map_}" for map_ in ("", ".0", ".2")]]
        readout = f"(Some {map_of(f'readout {k}')})" if f"readout {k}" in numbers else "None"
        sizes, residual = " ".join(map(str, x0.shape)), str(KINDS[block["kind"]]).lower()
        layers.append(f"Layer {norm(f'norm {k}')}\n  {listed(maps)}\n  {sizes} [{entries}] {readout} {residual}")
        first.append(ns(at[1]))
    embeddings = listed(zs(x) for x in whole_numbers(numbers["embedding"], scale))
    head = listed(map_of(part) for part in ("hidden", "head") if part in numbers)
    parts = [embeddings, listed(layers), listed(first), norm("norm"), head]
    return f"Definition weights : stack := Stack {scale}\n  " + "\n  ".join(parts) + ".\n"


def proof(certificate: Certificate, numbers: dict[str, Array], scale: int) -> str:
    """All tuples that are reached."""
    del numbers, scale
    states = certificate["proof"]["states"]
    tuples = [
        f"({q}, [{'; '.join(ns(known[i]) for known, i in zip(states, each, strict=True))}])"
        for q, *each in certificate["proof"]["pairs"]
    ]
    return f"""Definition tuples : list tuple := {listed(tuples)}.

Lemma checked : stack_check weights claim tuples = true.
Proof. vm_cast_no_check (eq_refl true). Qed.
"""


FAMILY = Family("cascade", "Automaton", refusal, names, network, proof, THEOREM)
