"""The attention weights, held to the one thing a layer shows of them: its own output."""

import json

import pytest
import torch

from lengthwise import insight, models, tasks
from lengthwise.errors import Error, NonFiniteError, ShapeError, TooLarge
from lengthwise.mixers import Mixer
from lengthwise.mixers.attention import merge_heads, split_heads
from lengthwise.models import LengthwiseForCausalLM, TokenClassifier

from ..mixers import made

TOKENS = torch.tensor([3, 1, 4, 1, 0, 2, 1, 1, 2])
OPTIONS = [
    {},
    {"gamma": 0.0},
    {"chain_layers": "all", "learn_gamma": True, "gamma": 0.6},
    {"exclude_diagonal": False},
    {"paths": "sum"},
    {"position": "transformer-xl"},
    {"position": "none", "chain_layers": [0]},
]


SOFTMAX = [
    {"position": "rope", "window": 3},
    {"position": "alibi", "window": 2},
]


def build(name="chacal", **options):
    torch.manual_seed(0)
    classifier = models.build(name, vocab_size=5, num_outputs=5, width=16, heads=2, layers=3, **options).double()
    for p in classifier.parameters():  # far from the even weights of small random queries
        torch.nn.init.normal_(p, std=0.5)
    return classifier


def own(classifier, tokens):
    """What each mixer gave before `out`, and its values, by listening to its maps."""
    seen = []

    def listen(mixer):
        def watch(module, args, output):
            seen.append({"v": split_heads(output.chunk(3, -1)[2], mixer.heads)[0]})

        def note(module, args):
            seen[-1]["y"] = args[0]

        return [mixer.qkv.register_forward_hook(watch), mixer.out.register_forward_pre_hook(note)]

    hooks = [h for m in classifier.modules() if isinstance(m, Mixer) for h in listen(m)]
    with torch.no_grad():
        classifier(tokens[None])
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.parametrize("options", [*OPTIONS, *({"name": "transformer", **options} for options in SOFTMAX)], ids=str)
def test_paths_times_values_are_the_layer_s_output(options):
    classifier = build(**options)
    found = insight.read_attention(classifier, TOKENS)
    for layer, seen in zip(found, own(classifier, TOKENS), strict=True):
        y = merge_heads((layer.paths @ seen["v"])[None])
        torch.testing.assert_close(y, seen["y"], rtol=1e-10, atol=1e-10)


def test_nothing_is_dropped():
    classifier = models.build("transformer", vocab_size=5, num_outputs=5, width=8, heads=2, layers=1, dropout=0.5)
    classifier.train()
    first, second = (insight.read_attention(classifier, TOKENS)[0].weights for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_rows(options):
    for layer in insight.read_attention(build(**options), TOKENS):
        T = len(TOKENS)
        assert layer.weights.shape == layer.paths.shape == (2, T, T)
        torch.testing.assert_close(layer.weights.sum(-1), torch.ones(2, T, dtype=torch.double))
        for matrix in (layer.weights, layer.paths):
            assert (matrix >= 0).all()
            assert not matrix.triu(1).any()
        if layer.mixer == "softmax":
            assert layer.gamma is None
            assert torch.equal(layer.paths, layer.weights)
        elif options.get("gamma") == 0.0:
            torch.testing.assert_close(layer.paths, layer.weights)
        elif options.get("exclude_diagonal") is False:
            torch.testing.assert_close(layer.paths.sum(-1), torch.ones(2, T, dtype=torch.double))
        else:
            assert not torch.allclose(layer.paths, layer.weights, atol=1e-2)


def test_what_each_layer_is():
    found = insight.read_attention(build(chain_layers=[1], gamma=0.8), TOKENS)
    assert [(layer.name, layer.mixer) for layer in found] == [
        ("layer 0", "softmax"), ("layer 1", "chain"), ("layer 2", "softmax"),
    ]  # fmt: skip
    assert found[1].gamma == pytest.approx((0.8, 0.8))
    data = json.loads(json.dumps(found[1].to_json()))
    assert data["strongest"][1][0] == [[0, 1.0]], "the first token has but itself to read"
    place, weight = data["strongest"][0][8][0]
    assert weight == pytest.approx(found[1].weights[0, 8].max().item(), abs=1e-4)
    assert place == found[1].weights[0, 8].argmax()


def test_an_encoder_reads_both_ways():
    torch.manual_seed(0)
    chain = {"name": "chain", "heads": 2, "causal": False}
    config = made.config(vocab_size=5, width=8, mixer=chain, depth={"name": "fixed", "layers": 1})
    classifier = TokenClassifier(_Logits(LengthwiseForCausalLM(config).double()), 5, "encoder")
    (layer,) = insight.read_attention(classifier, TOKENS)
    assert (layer.weights > 0).all()
    y = merge_heads((layer.paths @ own(classifier, TOKENS)[0]["v"])[None])
    torch.testing.assert_close(y, own(classifier, TOKENS)[0]["y"])


class _Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens).logits


@pytest.mark.parametrize(("name", "words"), [("lstm", "got Recurrent"), ("regular-gpt", "got SlidingDilated")])
def test_other_layers_are_named(name, words):
    classifier = models.build(name, vocab_size=5, num_outputs=5, width=16)
    with pytest.raises(Error, match=words):
        insight.read_attention(classifier, TOKENS)


def test_long_strings_are_refused_and_each_layer_is_heard_of(monkeypatch):
    heard = []
    insight.find_links(build(), tasks.get("parity"), TOKENS.expand(3, -1) % 2, lambda *of: heard.append(of))
    assert heard == [(1, 3), (2, 3), (3, 3)], "one string of three"
    monkeypatch.setenv("LENGTHWISE_MAX_LINKS", str(len(TOKENS) ** 2))
    insight.read_attention(build(), TOKENS)
    with pytest.raises(TooLarge, match=r"pairs of tokens to link.*LENGTHWISE_MAX_LINKS"):
        insight.read_attention(build(), torch.cat([TOKENS, TOKENS[:1]]))


def test_refuses():
    classifier = build()
    with pytest.raises(ShapeError, match=r"one string, \(T,\)"):
        insight.read_attention(classifier, TOKENS[None])
    with torch.no_grad():
        next(classifier.parameters()).fill_(torch.nan)
    with pytest.raises(NonFiniteError, match="not finite"):
        insight.read_attention(classifier, TOKENS)
    strange = TokenClassifier(torch.nn.Embedding(5, 5), 5, "strange")
    with pytest.raises(Error, match="strange: attention can be read"):
        insight.read_attention(strange, TOKENS)
