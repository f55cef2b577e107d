"""The kinds of model that are decided at every length: what each takes, and how one is proved and taught."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from torch import nn

from ..models import LengthwiseForCausalLM
from .claim import Claim
from .consolidate import closure, compiling, neurons, signs, silence
from .consolidate.teaching import CannotBeTaught, TaughtCopy
from .prove import boxes, cascade, codes, node, recurrence
from .verdict import Proof, Refuted, Unknown

Method = Callable[[LengthwiseForCausalLM, Claim, float], Proof | Refuted | Unknown | str]
"""From a model in eval mode, a claim and seconds to a proof, or to why there is none: a wrong word that it met, say.

It is no authority: unless the checker accepts what it finds, nothing is proved.
"""


class ProofFamily(NamedTuple):
    refusal: Callable[[nn.Module], str | None]
    """Why a model is none of this kind, or None if it is one."""
    methods: tuple[Method, ...]
    """Tried in turn until one proves the claim."""
    teach: Callable[[LengthwiseForCausalLM, Claim, float], TaughtCopy] | None
    """From a model that has learned its machine, its claim and seconds to a consolidated copy, or an Error."""


def teach_codes(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> TaughtCopy:
    if reason := closure.refusal(model):
        raise CannotBeTaught(reason)
    made = compiling.teach_codes(model, claim, seconds=seconds)
    return TaughtCopy(made.model, made.own, made.elements, "codes")


def in_both(prove: Callable[..., Proof | Refuted | Unknown | str]) -> tuple[Method, Method]:
    """Returns the method for evaluation in float32, and for that in float64 alone."""

    def in_float64(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> Proof | Refuted | Unknown | str:
        return prove(model, claim, seconds, "float64")

    in_float64.__name__ = f"{prove.__name__}_in_float64"
    return prove, in_float64


def no_cascade(model: nn.Module) -> str | None:
    network = cascade.network_of(model)
    return network if isinstance(network, str) else None


FAMILIES = (
    ProofFamily(partial(node.refusal, nodes="discrete"), (codes.prove_codes,), teach_codes),
    ProofFamily(node.refusal, in_both(boxes.prove_tree_boxes), neurons.teach_neurons),
    ProofFamily(partial(node.refusal, nodes="snapped to centres"), in_both(codes.prove_snapped), None),
    ProofFamily(recurrence.refusal, in_both(recurrence.prove_recurrence), signs.teach_signs),
    ProofFamily(no_cascade, (cascade.prove_cascade,), silence.silenced),
)


def family_of(model: LengthwiseForCausalLM) -> ProofFamily | str:
    """The family of a model, or why it is of none."""
    reasons: list[str] = []
    for family in FAMILIES:
        if (reason := family.refusal(model)) is None:
            return family
        reasons.append(reason)
    return "; ".join(dict.fromkeys(reasons))
