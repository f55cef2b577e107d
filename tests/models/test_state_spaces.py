"""The presets of the S4 family: built, saved, decoded with a state that does not grow."""

from __future__ import annotations

import pytest
import torch

from lengthwise import Error, models
from lengthwise.models import LengthwiseForCausalLM, presets
from lengthwise.models.cache import LengthwiseCache

NAMES = ["s4", "s4d", "liquid-s4", "lru", "diagonal-lrnn"]


def make(name, **options):
    torch.manual_seed(0)
    return LengthwiseForCausalLM(presets.PRESETS[name](5, width=8, layers=2, state=4, **options)).eval()


@pytest.mark.parametrize("name", NAMES)
def test_generates_with_a_cache_of_constant_size(name):
    model, prompt = make(name), torch.tensor([[1, 2, 3], [0, 4, 2]])
    mask = torch.tensor([[1, 1, 1], [0, 1, 1]])
    settings = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0, "attention_mask": mask}
    cache = LengthwiseCache()
    found = model.generate(prompt, past_key_values=cache, **settings)
    assert torch.equal(found, model.generate(prompt, use_cache=False, **settings))
    assert len(cache.states) == 2
    for state in cache.states.values():
        assert sum(part.numel() for part in state if part is not None) <= 2 * 8 * 4


@pytest.mark.parametrize("name", NAMES)
def test_options_reach_the_mixer(name):
    classifier = models.build(name, vocab_size=5, num_outputs=3, width=8, state=6, output="linear", dropout=0.1)
    assert classifier(torch.tensor([[0, 1, 4]])).shape == (1, 3, 3)
    (layer,) = classifier.inner.mixers()
    assert len(layer.output) == 2
    assert layer.name == name
    with pytest.raises(Error, match=r"output must be .* got 'gated'"):
        models.build(name, vocab_size=5, num_outputs=3, output="gated")
