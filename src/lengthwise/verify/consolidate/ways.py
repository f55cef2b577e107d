"""The ways to consolidate a trained model, tried in turn by `certify`.

A way is a plain function of a model, its claim and seconds: it gives the copy that it taught, or says in one sentence
why it cannot take the model.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from ...models import LengthwiseForCausalLM
from ..claim import Claim
from ..prove.cascade_network import network_of
from . import closure, compiling, continuous, signs
from .carriers import NoCarriers
from .silence import silenced

Way = Callable[[LengthwiseForCausalLM, Claim, float], nn.Module | str]


def by_codes(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> nn.Module | str:
    """Trees of discrete nodes."""
    return closure.refusal(model) or compiling.consolidate_run(model, claim, seconds=seconds).model


def by_boxes(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> nn.Module | str:
    """Trees of continuous nodes."""
    return continuous.refusal(model) or continuous.consolidate(model, claim, seconds)


def by_signs(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> nn.Module | str:
    """RNN, GRU and LSTM."""
    return signs.consolidate(model, claim, seconds)


def by_silence(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> nn.Module | str:
    """Stacks of automata."""
    if isinstance(network := network_of(model), str):
        return network
    try:
        return silenced(model, claim, seconds)[0]
    except NoCarriers as problem:
        return str(problem)


WAYS: tuple[Way, ...] = (by_codes, by_boxes, by_signs, by_silence)
