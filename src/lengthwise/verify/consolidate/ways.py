"""The ways to consolidate a trained model, tried in turn by `certify`.

A way is a plain function of a model that has learned its machine (gate.py), its claim and seconds. It gives the copy
that it taught and what that kept, or says in one sentence why it cannot take such a model; where it can, and this one
cannot be taught, it raises an Error.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from ...errors import Error
from ...models import LengthwiseForCausalLM
from ..claim import Claim
from ..prove.boxes import refusal as no_boxes
from ..prove.cascade import network_of
from . import closure, compiling, continuous, neurons, signs
from .carriers import NoCarriers
from .gate import REFUSED
from .silence import silenced


class TaughtCopy(NamedTuple):
    """A copy, and how many of all its codes, sets, neurons or entries are those that training had given the model."""

    model: LengthwiseForCausalLM
    own: int
    all: int
    of: str


Way = Callable[[LengthwiseForCausalLM, Claim, float], TaughtCopy | str]


def by_codes(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> TaughtCopy | str:
    """Trees of discrete nodes."""
    if reason := closure.refusal(model):
        return reason
    made = compiling.taught_codes(model, claim, seconds=seconds)
    return TaughtCopy(made.model, made.own, made.elements, "codes")


def by_boxes(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> TaughtCopy | str:
    """Trees of continuous nodes."""
    if reason := no_boxes(model):
        return reason
    ends = time.monotonic() + seconds
    found = neurons.taught(model, claim, seconds)
    if isinstance(found, str) or not isinstance(found.proof, dict):
        found = continuous.taught(model, claim, max(1.0, ends - time.monotonic()))
    return TaughtCopy(found.model, found.own, found.sets, "sets")


def by_signs(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> TaughtCopy | str:
    """RNN, GRU and LSTM."""
    if reason := signs.refusal(model):
        return reason
    found = signs.taught(model, claim, seconds)
    if isinstance(found, str):
        raise Error(f"{REFUSED}: {found}.")
    return TaughtCopy(found.model, int(found.own.sum()), found.own.numel(), "neurons")


def by_silence(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> TaughtCopy | str:
    """Stacks of automata."""
    if isinstance(network := network_of(model), str):
        return network
    try:
        copy, cascade = silenced(model, claim, seconds)
    except NoCarriers as problem:
        raise Error(f"{REFUSED}: {problem}.") from problem
    entries = sum(layer.mixer.initial.numel() for layer in model.depth.layers)
    return TaughtCopy(copy, sum(map(len, cascade.chosen)), entries, "entries")


WAYS: tuple[Way, ...] = (by_codes, by_boxes, by_signs, by_silence)
