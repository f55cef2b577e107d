"""The preset `chacal`: which layers chain, how large it is, and that it is its baseline in all else."""

import pytest
import torch

from lengthwise import models
from lengthwise.errors import Error
from lengthwise.mixers import Chain, Softmax
from lengthwise.models import LengthwiseForCausalLM, presets

from ...mixers import made

PUBLISHED = {1: 3.3, 2: 6.4, 3: 9.6, 4: 12.7, 5: 15.9}
"""Million parameters of L layers in the paper's Table 1."""


def size(config):
    with torch.device("meta"):
        return LengthwiseForCausalLM(config).num_parameters()


@pytest.mark.parametrize("layers", PUBLISHED)
def test_the_published_sizes(layers):
    """Those of a tied head, as GPT-2 has it: with a head of its own two and three layers would be 6.5 and 9.7."""
    options = {"width": 512, "heads": 8, "layers": layers, "max_length": 128, "tie_word_embeddings": True}
    standard = size(presets.transformer(128, position="learned", **options))
    assert abs(standard / 1e6 - PUBLISHED[layers]) < 0.05
    assert size(presets.chacal(128, **options)) == standard
    learned = presets.chacal(128, chain_layers="all", learn_gamma=True, **options)
    assert size(learned) == standard + 8 * layers


@pytest.mark.parametrize(
    ("choice", "wanted"), [("last", "ssc"), ("all", "ccc"), ([0], "css"), ([-1, 0], "csc"), ([1], "scs")]
)
def test_which_layers_chain(choice, wanted):
    model = LengthwiseForCausalLM(presets.chacal(5, width=8, heads=2, layers=3, chain_layers=choice))
    kinds = {Chain: "c", Softmax: "s"}
    assert "".join(kinds[type(m)] for m in model.mixers()) == wanted


@pytest.mark.parametrize("learn", [False, True])
def test_all_else_is_the_baseline_s(learn):
    """Same seed, same weights; with γ near 0, the same logits."""
    tokens = torch.randint(0, 5, (2, 9))
    made = []
    for config in (
        presets.transformer(5, width=8, heads=2, layers=2, position="learned", initializer_range=0.02),
        presets.chacal(5, width=8, heads=2, gamma=1e-7 if learn else 0.0, learn_gamma=learn),
        presets.chacal(5, width=8, heads=2, gamma=0.9),
    ):
        torch.manual_seed(0)
        made.append(LengthwiseForCausalLM(config).double().eval())
    standard, none, chacal = made
    weights = dict(chacal.named_parameters())
    assert all(torch.equal(p, weights[name]) for name, p in standard.named_parameters())
    torch.testing.assert_close(none(tokens).logits, standard(tokens).logits, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(chacal(tokens).logits, standard(tokens).logits, rtol=1e-2, atol=1e-6)


def test_an_encoder_keeps_no_cache():
    encoder = made.config(
        vocab_size=5,
        width=8,
        mixer={"name": "chain", "heads": 2, "causal": False},
        depth={"layers": 2, "name": "fixed"},
    )
    model, tokens = LengthwiseForCausalLM(encoder).eval(), torch.randint(0, 5, (2, 6))
    assert model(tokens).logits.shape == (2, 6, 5)
    with pytest.raises(Error, match="keeps no state, for its tokens read those after them"):
        model(tokens, use_cache=True)


def test_refuses():
    with pytest.raises(Error, match="Did you mean 'last'"):
        models.build("chacal", vocab_size=2, num_outputs=2, chain_layers="lasst")
    with pytest.raises(Error, match=r"must be 'last', 'all' or a list of whole numbers, got 1\."):
        models.build("chacal", vocab_size=2, num_outputs=2, chain_layers=1)
    for choice in ([2], [], [0, 0], [0, -2]):
        with pytest.raises(Error, match="different layers of 0 to 1"):
            presets.chacal(2, chain_layers=choice)
    with pytest.raises(Error, match="at least 0 and below 1, got 1"):
        models.build("chacal", vocab_size=2, num_outputs=2, gamma=1.0)
