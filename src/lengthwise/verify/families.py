"""The kinds of model that are decided at every length: what each takes, and how one is proved and taught."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import nn

from ..models import LengthwiseForCausalLM
from .claim import Claim
from .consolidate import closure, compiling, neurons, signs, silence
from .consolidate.teaching import CannotBeTaught, TaughtCopy
from .prove import boxes, cascade, codes, node, recurrence
from .prove import snapped as snapped_trees
from .verdict import Proof, Refuted, Unknown

Method = Callable[[LengthwiseForCausalLM, Claim, float], Proof | Refuted | Unknown | str]
"""From a model in eval mode, a claim and seconds to a proof, or to why there is none: a wrong word that it met, say.

It is no authority: unless the checker accepts what it finds, nothing is proved.
"""


class Family(NamedTuple):
    refusal: Callable[[nn.Module], str | None]
    """Why a model is none of this kind, or None if it is one."""
    methods: tuple[Method, ...]
    """Tried in turn until one proves the claim."""
    teach: Callable[[LengthwiseForCausalLM, Claim, float], TaughtCopy] | None
    """From a model that has learned its machine, its claim and seconds to a consolidated copy, or an Error."""


def taught_codes(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> TaughtCopy:
    if reason := closure.refusal(model):
        raise CannotBeTaught(reason)
    made = compiling.taught_codes(model, claim, seconds=seconds)
    return TaughtCopy(made.model, made.own, made.elements, "codes")


def no_cascade(model: nn.Module) -> str | None:
    network = cascade.network_of(model)
    return network if isinstance(network, str) else None


FAMILIES = (
    Family(codes.refusal, (codes.prove_codes,), taught_codes),
    Family(node.refusal, (boxes.prove_tree_boxes, boxes.prove_tree_boxes_in_float64), neurons.taught),
    Family(snapped_trees.refusal, (snapped_trees.prove_snapped,), None),
    Family(recurrence.refusal, (recurrence.prove_recurrence, recurrence.prove_recurrence_in_float64), signs.taught),
    Family(no_cascade, (cascade.prove_cascade,), silence.silenced),
)


def family_of(model: LengthwiseForCausalLM) -> Family | str:
    """The family of a model, or why it is of none."""
    reasons: list[str] = []
    for family in FAMILIES:
        if (reason := family.refusal(model)) is None:
            return family
        reasons.append(reason)
    return "; ".join(dict.fromkeys(reasons))
