"""A theorem about a RegularGPT of discrete nodes: a code for each element of the machine's algebra that nodes reach."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from ..checker.claim import StatedClaim
from ..checker.intervals import Array
from ..checker.network import each_layer
from .coq import listed, ns, rows, whole_numbers, zs
from .family import Certificate, Family, common_refusal

FINENESS = 30
"""Vectors are known in units of 2^-30."""
AT = "depth.layers.0"
PARTS = (
    ("embedding", "embedding.weight"),
    ("reads", f"{AT}.mixer.qkv.weight"),
    ("reads_bias", f"{AT}.mixer.qkv.bias"),
    ("tap_biases", f"{AT}.mixer.r"),
    ("out", f"{AT}.mixer.out.weight"),
    ("out_bias", f"{AT}.mixer.out.bias"),
    ("mixer_norm", f"{AT}.mixer_norm.weight"),
    ("mixer_norm_bias", f"{AT}.mixer_norm.bias"),
    ("up", f"{AT}.up.weight"),
    ("up_bias", f"{AT}.up.bias"),
    ("down", f"{AT}.down.weight"),
    ("down_bias", f"{AT}.down.bias"),
    ("feed_norm", f"{AT}.feed_norm.weight"),
    ("feed_norm_bias", f"{AT}.feed_norm.bias"),
    ("choose", f"{AT}.nodes.choose.weight"),
    ("choose_bias", f"{AT}.nodes.choose.bias"),
    ("codebook", f"{AT}.nodes.codebook"),
    ("head", "head.weight"),
    ("head_bias", "head.bias"),
    ("pad", "pad"),
    ("pad", f"{AT}.mixer.pad"),
)
"""The parts of a network, and how the weights may call each: biases and pads may be missing, and a head be tied."""
THEOREM = """Theorem certificate_NAME : gpt_right_at_every_length weights claim.
Proof. exact (gpt_check_is_sound fineness weights claim codes checked). Qed.

Print Assumptions certificate_NAME.
"""
WHERE_ASKED = """(** The same of words after which the machine is asked; [asked] says of which states that is. *)
Theorem certificate_NAME : gpt_right_where_asked weights claim asked.
Proof. exact (gpt_check_where_is_sound fineness weights claim asked heeded codes checked). Qed.

Print Assumptions certificate_NAME.
"""
IF_THEY_HOLD = """(** That all hold, an extracted program finds; that the rest follows, Coq's kernel accepts. *)
Theorem if_the_conditions_hold_NAME :
  every holds (gpt_conditions fineness weights claim asked heeded codes) = true ->
  gpt_right_where_asked weights claim asked.
Proof. exact (gpt_conditions_are_sound fineness weights claim asked heeded codes). Qed.
"""
EVERYWHERE = """(** That all hold, an extracted program finds; that the rest follows, Coq's kernel accepts. *)
Theorem if_the_conditions_hold_NAME :
  every holds (gpt_conditions fineness weights claim asked heeded codes) = true ->
  gpt_right_at_every_length weights claim.
Proof. intros all. exact (asked_everywhere _ _ (gpt_conditions_are_sound _ _ _ _ _ _ all)). Qed.
"""


def refusal(certificate: Certificate, *, asked: bool = True) -> str | None:
    """Why no theorem speaks of this network, or None. `asked`: only of machines that are asked after every word."""
    config = certificate["model"]["config"]
    (block,), plain = each_layer(config["block"], 1), {"embedding_scale": 1.0, "final_norm": False, "head": "linear"}
    if block["norm"] != "post" or block["activation"] != "relu":
        about = f"the norm {'first' if block['norm'] == 'pre' else 'last'} and {block['activation']}"
        return f"theorems are of RegularGPTs with the norm last and relu so far, and this one has {about}"
    if other := [name for name, value in plain.items() if config[name] != value]:
        return f"theorems are of plain RegularGPTs so far, and its config sets {', '.join(other)}"
    if any("level" in entry for entry in certificate["proof"]["codes"]):
        return "theorems are of codes that do not hang on a level of the tree so far, and this proof lists levels"
    return common_refusal(certificate, asked=asked)


def names(certificate: Certificate) -> dict[str, str]:
    """The parts that the network has."""
    there = certificate["model"]["weights"]
    return {part: name for part, name in PARTS if name in there or part == "head"}


def network(certificate: Certificate, numbers: dict[str, Array], scale: int) -> str:
    """The record of the weights, in the order of its fields."""
    config = certificate["model"]["config"]
    (mixer,), D, nodes = each_layer(config["mixer"], 1), config["width"], config["depth"]["nodes"]

    def affine(part: str, begin: int = 0, end: int | None = None) -> str:
        W = numbers[part]
        return rows(W[begin:end], numbers.get(f"{part}_bias", np.zeros(len(W)))[begin:end], scale)

    def norm(part: str) -> str:
        parts = (whole_numbers(numbers[name], scale) for name in (part, f"{part}_bias"))
        return zs(f"({w}, {b})" for w, b in zip(*parts, strict=True))

    def vectors(x: Array) -> str:
        return listed(map(zs, whole_numbers(x, scale)))

    each = range(0, nodes["groups"] * nodes["codes"], nodes["codes"])
    fields = {
        "unit_of_weights": str(scale),
        "chunk": str(config["depth"]["chunk"]),
        "heads": str(mixer["heads"]),
        "embedded": vectors(numbers["embedding"]),
        "before_the_first": f"Some {zs(whole_numbers(numbers['pad'], scale))}" if "pad" in numbers else "None",
        "queries": affine("reads", 0, D),
        "keys": affine("reads", D, 2 * D),
        "values": affine("reads", 2 * D, 3 * D),
        "tap_biases": vectors(numbers["tap_biases"]),
        "outs": affine("out"),
        "mixer_norm": norm("mixer_norm"),
        "ups": affine("up"),
        "downs": affine("down"),
        "feed_norm": norm("feed_norm"),
        "choices": listed(affine("choose", i, i + nodes["codes"]) for i in each),
        "codebook": listed(vectors(numbers["codebook"][i : i + nodes["codes"]]) for i in each),
        "answering": affine("head"),
    }
    record = ";\n  ".join(f"{name} := {value}" for name, value in fields.items())
    return f"Definition weights : gpt := {{|\n  {record} |}}.\n"


def proof(
    certificate: Certificate,
    numbers: dict[str, Array],
    scale: int,
    check: str = "gpt_check fineness weights claim codes",
) -> str:
    """The codes, each with its element, and the check of them."""
    del numbers, scale
    return f"""{sets(certificate)}
Lemma checked : {check} = true.
Proof. vm_cast_no_check (eq_refl true). Qed.
"""


def sets(certificate: Certificate) -> str:
    """What a check is given beside the network and the machine."""
    elements, codes = certificate["proof"]["elements"], certificate["proof"]["codes"]
    each = (f"({ns(elements[entry['element']])}, {ns(entry['code'])})" for entry in codes)
    claim, chunk = StatedClaim(certificate["claim"]), certificate["model"]["config"]["depth"]["chunk"]
    everywhere = claim.asked.all()
    asked, heeded = ([] if everywhere else truths for truths in (claim.asked, claim.heeded_by(chunk)))
    return f"""Definition fineness : Z := {FINENESS}.

(** A map of the machine's states, and the code of the nodes over words that act so. *)
Definition codes : list (list nat * list nat) := {listed(each)}.

(** Of each state whether the machine is asked there, and whether a multiple of {chunk} symbols may lead to where it is.
    Of states that are not listed it is. *)
Definition asked : list bool := {_truths(asked)}.
Definition heeded : list bool := {_truths(heeded)}.
"""


def _truths(each: Iterable[bool]) -> str:
    return f"[{'; '.join(str(bool(one)).lower() for one in each)}]"


FAMILY = Family("tree-codes", "RegularGpt", refusal, names, network, proof, THEOREM, EVERYWHERE)
WHERE_IT_IS_ASKED = FAMILY._replace(
    refusal=lambda each: refusal(each, asked=False),
    proof=partial(proof, check="gpt_check_where fineness weights claim asked heeded codes"),
    theorem=WHERE_ASKED,
    extracted=IF_THEY_HOLD,
)
