"""The presets of the S4 family: built, saved, decoded with a state that does not grow."""

from __future__ import annotations

import pytest
import torch

from lengthwise import Error, models
from lengthwise.models import LengthwiseForCausalLM, presets

NAMES = ["s4", "s4d", "liquid-s4", "lru", "diagonal-lrnn"]


def make(name, **options):
    torch.manual_seed(0)
    return LengthwiseForCausalLM(presets.PRESETS[name](5, width=8, layers=2, state=4, **options)).eval()


@pytest.mark.parametrize("name", NAMES)
def test_options_reach_the_mixer(name):
    classifier = models.build(name, vocab_size=5, num_outputs=3, width=8, state=6, output="linear", dropout=0.1)
    assert classifier(torch.tensor([[0, 1, 4]])).shape == (1, 3, 3)
    (layer,) = classifier.inner.mixers()
    assert len(layer.output) == 2
    assert layer.name == name
    with pytest.raises(Error, match=r"output must be .* got 'gated'"):
        models.build(name, vocab_size=5, num_outputs=3, output="gated")
