"""Stacks of several mixers against models of one, and what a stack cannot be made of. The laws are in laws/."""

import pytest
import torch

from lengthwise import models, positions
from lengthwise.errors import Error
from lengthwise.mixers import MIXERS
from lengthwise.models import LengthwiseForCausalLM, presets

from ...mixers import made

V, SMALL = 7, {"width": 16, "heads": 2}


def filled(config):
    torch.manual_seed(0)
    model = LengthwiseForCausalLM(config).double().eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.3)
    return model


def test_the_pattern_repeats_and_sliding_layers_reach_further():
    config = presets.hybrid(
        V,
        **SMALL,
        layers=5,
        mixers=["sliding-dilated", "softmax"],
        mixer_options={"sliding-dilated": {"chunk": 3}},
    )
    assert [spec["name"] for spec in config.mixer] == ["sliding-dilated", "softmax"] * 2 + ["sliding-dilated"]
    assert [spec.get("dilation", 0) for spec in config.mixer[::2]] == [0, 1, 2]
    assert {spec["chunk"] for spec in config.mixer[::2]} == {3}
    assert not any(spec["biases"] for spec in config.mixer)


@pytest.mark.parametrize("ends", [None, [3]])
def test_a_stack_of_one_kind_is_the_model_of_that_kind(ends):
    stack = filled(presets.hybrid(V, **SMALL, mixers=["softmax"], layers=2, ends=ends))
    if ends is None:
        config = presets.transformer(V, **SMALL, layers=2, block="llama", position="rope")
    else:
        config = presets.bipe(V, **SMALL, layers=2, variant="official", ends=ends)
    alone = LengthwiseForCausalLM(config).double().eval()
    alone.load_state_dict(stack.state_dict())
    tokens = torch.randint(V, (2, 23))
    assert torch.equal(stack(tokens).logits, alone(tokens).logits)


@pytest.mark.parametrize("name", MIXERS)
def test_every_mixer_can_stand_below_attention(name):
    model = filled(presets.hybrid(V, **SMALL, mixers=[name, "softmax"], layers=2, ends=[3]))
    tokens = torch.randint(V, (2, 9))
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "attention_mask": torch.ones_like(tokens)}
    cached, plain = (model.generate(tokens, use_cache=use, **options) for use in (True, False))
    assert torch.equal(cached, plain)


@pytest.mark.parametrize("T", [1, 2, 5, 9, 27])
def test_dilated_layers_are_the_groups_of_an_adaptive_depth(T):
    """With the same weights in every layer, at the last token of a text for which as many groups run."""
    sliding = {"name": "sliding-dilated", "heads": 2, "chunk": 3, "shared_pad": True}
    adaptive = filled(
        made.config(vocab_size=V, width=8, mixer=sliding, depth={"name": "adaptive", "chunk": 3, "by": "sequence"})
    )
    groups = max(1, sum(3**n < T for n in range(4)))
    stack = filled(
        made.config(
            vocab_size=V,
            width=8,
            mixer=[{**sliding, "dilation": n} for n in range(groups)],
            depth={"name": "fixed", "layers": groups},
        )
    )
    own = adaptive.state_dict()
    stack.load_state_dict({name: own[name.replace(f"layers.{name.split('.')[2]}.", "layers.0.")]
                           if name.startswith("depth") else own[name] for name in stack.state_dict()})  # fmt: skip
    tokens = torch.randint(V, (2, T))
    torch.testing.assert_close(stack(tokens).logits, adaptive(tokens).logits, rtol=1e-10, atol=1e-10)


def test_the_recurrence_below_attention_is_given_the_places_inside_segments_alone():
    """And so what lies in earlier segments reaches it by its state, the numbers of segments do not."""
    model = filled(presets.hybrid(V, **SMALL, mixers=["block-lrnn", "softmax"], layers=2, ends=[3]))
    recurrence, attention = (layer.mixer for layer in model.depth.layers)
    assert not recurrence.traits.takes_position
    assert attention.traits.takes_position
    assert isinstance(model.position, positions.Bilevel)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mixers": ["softmx"]}, "Did you mean 'softmax'"),
        ({"mixers": []}, "must name at least one"),
        ({"mixers": ["lstm"]}, "acts on attention, and mixer 'lstm' takes no positions"),
        ({"mixers": ["sliding-dilated"], "ends": [3]}, "takes no positions.*'sinusoidal'"),
        ({"mixer_options": {"chain": {"gamma": 0.5}}}, "speak of 'chain', and no layer is one"),
        ({"mixer_options": {"softmax": 3}}, "options of 'softmax' are a dict.*got 3"),
        ({"mixer_options": {"softmax": {"hedas": 3}}}, "Did you mean 'heads'"),
        ({"mixer_options": {"softmax": {"heads": 4}}, "mixers": ["chain", "softmax"]}, "as many heads"),
    ],
)
def test_refusals(options, said):
    with pytest.raises(Error, match=said):
        models.build("hybrid", vocab_size=V, **SMALL, **options)


def test_a_window_of_text_takes_what_is_added_to_the_embeddings():
    model = filled(presets.hybrid(V, **SMALL, mixers=["sliding-dilated"], position="sinusoidal", ends=[3]))
    tokens = torch.randint(V, (1, 40))
    tokens[0, 0], other = 1, tokens.clone()
    other[0, 0] = 2
    found, wanted = model(tokens).logits[0], model(other).logits[0]
    # Four layers of chunk 2 read 16 tokens.
    assert torch.equal(found[16:], wanted[16:])
    assert not torch.equal(found[15], wanted[15])
