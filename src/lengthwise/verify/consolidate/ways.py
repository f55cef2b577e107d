"""The ways to consolidate a trained model, tried in turn by `certify`.

A way is a plain function of a model, its claim and seconds: it gives the copy that it taught, or says in one sentence
why it cannot take the model.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from ...models import LengthwiseForCausalLM
from ..claim import Claim
from . import closure, compiling, continuous

Way = Callable[[LengthwiseForCausalLM, Claim, float], nn.Module | str]


def by_codes(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> nn.Module | str:
    """Trees of discrete nodes."""
    return closure.refusal(model) or compiling.consolidate_run(model, claim, seconds=seconds).model


def by_boxes(model: LengthwiseForCausalLM, claim: Claim, seconds: float) -> nn.Module | str:
    """Trees of continuous nodes, and RNN, GRU and LSTM."""
    return continuous.refusal(model) or continuous.consolidate(model, claim, seconds)


WAYS: tuple[Way, ...] = (by_codes, by_boxes)
