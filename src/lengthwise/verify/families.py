"""The kinds of model that are decided at every length: what each takes, and how one is proved and taught."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from torch import nn

from ..models import LengthwiseForCausalLM
from .checker.network import Network
from .claim import Claim
from .consolidate import closure, compiling, neurons, signs, silence
from .consolidate.teaching import CannotBeTaught, TaughtCopy
from .prove.boxes import prove_tree_boxes
from .prove.cascade import cascade_of, prove_cascade
from .prove.codes import prove_codes, prove_snapped
from .prove.node import tree_of
from .prove.recurrence import prove_recurrence, recurrence_of
from .verdict import Proof, Refuted, Unknown

Method = Callable[[LengthwiseForCausalLM, Claim, float], Proof | Refuted | Unknown | str]
"""From a model in eval mode, a claim and seconds to a proof, or to why there is none: a wrong word that it met, say.

It is no authority: unless the checker accepts what it finds, nothing is proved.
"""


class ProofFamily(NamedTuple):
    network: Callable[[nn.Module], Network | str]
    """The model as the checker reads it, or why it is none of this kind."""
    methods: dict[str, Method]
    """By name, tried in turn until one proves the claim."""
    teach: Callable[[LengthwiseForCausalLM, Claim, float], TaughtCopy] | None
    """From a model that has learned its machine, its claim and seconds to a consolidated copy, or an Error."""


def teach_codes(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> TaughtCopy:
    if reason := closure.refusal(model):
        raise CannotBeTaught(reason)
    made = compiling.teach_codes(model, claim, seconds=seconds)
    return TaughtCopy(made.model, made.own, made.elements, "codes")


def in_both(name: str, prove: Callable[..., Proof | Refuted | Unknown | str]) -> dict[str, Method]:
    """Returns the method for evaluation in float32, and for that in float64 alone."""
    return {name: prove, f"{name} in float64": partial(prove, arithmetic="float64")}


FAMILIES = (
    ProofFamily(partial(tree_of, nodes="discrete"), {"codes": prove_codes}, teach_codes),
    ProofFamily(tree_of, in_both("tree boxes", prove_tree_boxes), neurons.teach_neurons),
    ProofFamily(partial(tree_of, nodes="snapped to centres"), in_both("snapped", prove_snapped), None),
    ProofFamily(recurrence_of, in_both("recurrence", prove_recurrence), signs.teach_signs),
    ProofFamily(cascade_of, {"cascade": prove_cascade}, silence.silenced),
)


def family_of(model: LengthwiseForCausalLM) -> ProofFamily | str:
    """The family of a model, or why it is of none."""
    reasons: list[str] = []
    for family in FAMILIES:
        if not isinstance(network := family.network(model), str):
            return family
        reasons.append(network)
    return "; ".join(dict.fromkeys(reasons))
