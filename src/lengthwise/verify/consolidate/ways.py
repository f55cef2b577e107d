"""The ways to consolidate a trained model, tried in turn by `certify`.

A way is a plain function of a model, its claim and seconds. It gives the copy that it taught, or says in one sentence
why it cannot take such a model; where it can, and this one cannot be taught, it raises an Error.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from torch import nn

from ...errors import Error
from ...models import LengthwiseForCausalLM
from ..claim import Claim
from ..prove.cascade_network import network_of
from . import closure, compiling, continuous, neurons, signs
from .carriers import NoCarriers
from .silence import silenced

Way = Callable[[LengthwiseForCausalLM, Claim, float], nn.Module | str]


def by_codes(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> nn.Module | str:
    """Trees of discrete nodes."""
    return closure.refusal(model) or compiling.consolidate_run(model, claim, seconds=seconds).model


def by_boxes(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> nn.Module | str:
    """Trees of continuous nodes."""
    if reason := continuous.refusal(model):
        return reason
    if reason := continuous.unlearned(model, claim):
        raise _failed(reason)
    ends = time.monotonic() + seconds
    found = neurons.taught(model, claim, seconds)
    if not isinstance(found, str) and isinstance(found[1], dict):
        return found[0]
    return continuous.consolidate(model, claim, max(1.0, ends - time.monotonic()))


def by_signs(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> nn.Module | str:
    """RNN, GRU and LSTM."""
    if reason := signs.refusal(model):
        return reason
    found = signs.consolidate(model, claim, seconds)
    if isinstance(found, str):
        raise _failed(found)
    return found


def by_silence(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> nn.Module | str:
    """Stacks of automata."""
    if isinstance(network := network_of(model), str):
        return network
    try:
        return silenced(model, claim, seconds)[0]
    except NoCarriers as problem:
        raise _failed(str(problem)) from problem


def _failed(why: str) -> Error:
    return Error(f"certify: this model cannot be consolidated: {why}.")


WAYS: tuple[Way, ...] = (by_codes, by_boxes, by_signs, by_silence)
