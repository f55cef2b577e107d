"""The kinds of model that are decided at every length: what each takes, and how one is proved and taught."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from torch import nn

from ..errors import Error
from ..models import LengthwiseForCausalLM
from .claim import Claim
from .consolidate import closure, compiling, neurons, signs, silence, snapping
from .consolidate.carriers import NoCarriers
from .consolidate.gate import REFUSED
from .consolidate.teaching import TaughtCopy
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
        raise Error(f"{REFUSED}: {reason}.")
    made = compiling.taught_codes(model, claim, seconds=seconds)
    return TaughtCopy(made.model, made.own, made.elements, "codes")


def taught_sets(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> TaughtCopy:
    ends = time.monotonic() + seconds
    copy = neurons.taught(model, claim, seconds)
    if isinstance(copy, str) or not isinstance(copy.proof, dict):
        copy = snapping.taught(model, claim, max(1.0, ends - time.monotonic()))
    return copy


def taught_signs(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> TaughtCopy:
    copy = signs.taught(model, claim, seconds)
    if isinstance(copy, str):
        raise Error(f"{REFUSED}: {copy}.")
    return copy


def taught_entries(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> TaughtCopy:
    try:
        copy, carried = silence.silenced(model, claim, seconds)
    except NoCarriers as problem:
        raise Error(f"{REFUSED}: {problem}.") from problem
    entries = sum(layer.mixer.initial.numel() for layer in model.depth.layers)
    return TaughtCopy(copy, sum(map(len, carried.chosen)), entries, "entries")


def no_cascade(model: nn.Module) -> str | None:
    network = cascade.network_of(model)
    return network if isinstance(network, str) else None


FAMILIES = (
    Family(codes.refusal, (codes.prove_codes,), taught_codes),
    Family(node.refusal, (boxes.prove_tree_boxes,), taught_sets),
    Family(snapped_trees.refusal, (snapped_trees.prove_snapped,), None),
    Family(recurrence.refusal, (recurrence.prove_recurrence, recurrence.prove_recurrence_in_float64), taught_signs),
    Family(no_cascade, (cascade.prove_cascade,), taught_entries),
)


def family_of(model: LengthwiseForCausalLM) -> Family | str:
    """The family of a model, or why it is of none."""
    reasons: list[str] = []
    for family in FAMILIES:
        if (reason := family.refusal(model)) is None:
            return family
        reasons.append(reason)
    return "; ".join(dict.fromkeys(reasons))
