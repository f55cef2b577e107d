"""The block-diagonal linear RNN as a model: the released network, the table of words, decoding in constant memory."""

import pytest
import torch
from torch import Tensor

from lengthwise.errors import Error, UnknownName
from lengthwise.mixers import BlockLRNN
from lengthwise.mixers.transitions import shortened
from lengthwise.models import LengthwiseConfig, LengthwiseForCausalLM, build, presets
from lengthwise.models.cache import LengthwiseCache

from ...mixers import made
from ..test_cache import Elements


def make(vocab=5, **options):
    torch.manual_seed(0)
    options = {"width": 8, "block": 4} | options
    model = LengthwiseForCausalLM(presets.block_lrnn(vocab, 3, **options)).double().eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return model


def perceptron(x: Tensor, first, second) -> Tensor:
    return (x @ first.weight.T + first.bias).clamp(min=0) @ second.weight.T + second.bias


def layer_norm(x: Tensor, norm) -> Tensor:
    centred = x - x.mean()
    return centred / (centred.square().mean() + 1e-5).sqrt() * norm.weight + norm.bias


def released(model: LengthwiseForCausalLM, tokens: list[int], h: int, b: int, p: float) -> Tensor:
    """Logits of one string, one token and one block after the other."""
    U = [model.embedding.weight[token] for token in tokens]
    for k, layer in enumerate(model.depth.layers):
        mixer, out = layer.mixer, []
        x = [mixer.initial[a] for a in range(h)]
        for u in U:
            n = layer_norm(u, layer.mixer_norm)
            M = perceptron(n, mixer.transition[0], mixer.transition[2]).view(h, b, b)
            v = perceptron(n, mixer.inputs[0], mixer.inputs[2]).view(h, b)
            for a in range(h):
                columns = [M[a, :, j] - M[a, :, j].sum() / b for j in range(b)]
                largest = max((c.abs() ** p).sum() ** (1 / p) for c in columns)
                x[a] = sum(c / largest * x[a][j] for j, c in enumerate(columns)) + v[a]
            y = torch.cat(x)
            out.append(u + y if k + 1 < len(model.depth.layers) else y)
        U = out
    return torch.stack([perceptron(layer_norm(u, model.norm), model.hidden, model.head) for u in U])


@pytest.mark.parametrize("layers", [1, 3])
def test_official_is_the_released_network(layers):
    model = make(variant="official", layers=layers)
    for n in (1, 2, 9):
        tokens = torch.randint(0, 5, (n,))
        found, wanted = model(tokens[None]).logits[0], released(model, tokens.tolist(), 2, 4, 1.2)
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
        for a, b in zip(*(gradients(model, logits) for logits in (found, wanted)), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def gradients(model, logits):
    weights = torch.linspace(-1, 1, logits.numel(), dtype=logits.dtype).view(logits.shape)
    return torch.autograd.grad((logits * weights).sum(), list(model.parameters()), materialize_grads=True)


def test_the_paper_is_its_equations_and_nothing_else():
    model = make(variant="paper", layers=1)
    names = set(dict(model.named_parameters()))
    mixer = {"transition.weight", "transition.bias", "inputs.weight", "readout.weight", "readout.bias"}
    assert names == {"embedding.weight", "head.weight", "head.bias", *(f"depth.layers.0.mixer.{n}" for n in mixer)}
    assert model.config.mixer["p"] == 1.2


@pytest.fixture
def rows(monkeypatch):
    """How many vectors each call of a layer's networks was given, from the first on."""
    seen, real = [], BlockLRNN.transitions
    monkeypatch.setattr(BlockLRNN, "transitions", lambda self, x: seen.append(x[..., 0].numel()) or real(self, x))
    return seen


def whole(model, tokens):
    return model(tokens).logits


def left_padded(model, tokens):
    mask = torch.arange(tokens.shape[1]) >= torch.tensor([[0], [2], [9]])
    return model(tokens, attention_mask=mask.long()).logits[mask]


def right_padded(model, tokens):
    mask = torch.arange(tokens.shape[1]) < torch.tensor([[13], [2], [9]])
    return model(tokens, attention_mask=mask.long(), logits_to_keep=1).logits


def packed(model, tokens):
    return model(tokens, sequence_ids=torch.tensor([0] * 5 + [1] * 7 + [2]).expand_as(tokens)).logits


def in_pieces(model, tokens):
    cache, parts = LengthwiseCache(), tokens.split([6, 1, 6], 1)
    return torch.cat([model(part, past_key_values=cache).logits for part in parts], 1)


@pytest.mark.parametrize("form", [whole, left_padded, right_padded, packed, in_pieces])
@pytest.mark.parametrize(
    "options",
    [
        {"variant": "official"},
        {"variant": "official", "layers": 3},
        {"variant": "paper", "layers": 2},
        {"layers": 2, "residual": "all", "normalisation": "orthogonal"},
    ],
    ids=str,
)
def test_the_first_layer_asks_once_a_word(form, options, rows):
    model, tokens = make(**options), torch.randint(0, 5, (3, 13))
    model.reuse_equal_tokens()
    found = form(model, tokens)
    layers = model.config.depth["layers"]
    assert rows[0] == 5
    assert all(n == 39 for n in rows[1:layers]) or form is in_pieces
    model.reuse_equal_tokens(False)
    rows.clear()
    wanted = form(model, tokens)
    assert 5 not in rows
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    for a, b in zip(gradients(model, found), gradients(model, wanted), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_fewer_tokens_than_words_are_not_looked_up(rows):
    model, tokens = make(), torch.randint(0, 5, (3, 13))
    model.reuse_equal_tokens()
    model(tokens[:1, :5])
    assert rows == [5]


def test_a_word_is_asked_once_in_transformer_blocks_too(rows):
    tokens = torch.randint(0, 5, (3, 13))
    for norm in ("pre", "post"):
        config = made.config(vocab_size=5, width=8, mixer={"name": "block-lrnn"}, block={"norm": norm})
        model = LengthwiseForCausalLM(config).double()
        model.reuse_equal_tokens()
        found = model(tokens).logits
        assert rows[0] == 5
        model.reuse_equal_tokens(False)
        torch.testing.assert_close(found, model(tokens).logits, rtol=1e-12, atol=1e-12)
        rows.clear()


def test_it_compiles_and_runs_under_autocast(rows):
    torch._dynamo.reset()
    model, tokens = make(layers=2).float(), torch.randint(0, 5, (3, 13))
    model.reuse_equal_tokens()
    wanted = model(tokens).logits
    with torch.autocast("cpu", torch.bfloat16):
        assert (model(tokens).logits - wanted).abs().max() < 0.05 * wanted.abs().max()
    assert rows == [5, 39, 5, 39]
    run = torch.compile(lambda t: model(t).logits, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(run(tokens), wanted)


def kept(cache):
    return sum(t.numel() for state in cache.states.values() for t in state)


def test_decoding_takes_constant_memory_and_work():
    model, sizes, costs = make(layers=2), [], []
    for n in (10, 200):
        text = model.generate(
            torch.randint(0, 3, (2, 3)), max_new_tokens=n, do_sample=False, return_dict_in_generate=True
        )
        cache = text.past_key_values
        assert cache.length == n + 2
        assert cache.tokens is None
        assert cache._top is None
        sizes.append(kept(cache))
        with torch.no_grad(), Elements() as elements:
            model(text.sequences[:, -1:], past_key_values=cache)
        costs.append(elements.total)
    assert sizes == [2 * 2 * 8] * 2
    assert costs[0] == costs[1]


def test_a_vocabulary_of_one():
    model = make(vocab=1, layers=2)
    tokens = torch.zeros(2, 7, dtype=torch.long)
    found = model(tokens).logits
    assert found.isfinite().all()
    parts = torch.stack([model(tokens[:, : t + 1], logits_to_keep=1).logits[:, 0] for t in range(7)], 1)
    torch.testing.assert_close(found, parts)


def test_every_option_is_reachable_from_the_preset():
    model = make(blocks=3, block=2, p=1.0, transition="linear", inputs="linear", learned_initial=False, head="linear",
                 readout="linear", residual="all", normalisation="paper", layers=2, dropout=0.1)  # fmt: skip
    mixer = model.depth.layers[1].mixer
    assert (mixer.shape, mixer.bound.func, mixer.bound.keywords) == ((3, 2), shortened, {"p": 1.0})
    assert mixer.initial is None
    assert model.hidden is None
    assert all(isinstance(m, torch.nn.Linear) for m in (mixer.transition, mixer.inputs, mixer.readout))
    assert [layer.residual for layer in model.depth.layers] == [True, True]
    assert [layer.residual for layer in make(layers=2).depth.layers] == [True, False]


def test_refusals():
    with pytest.raises(Error, match="block alone must divide the width, got block 8 and width 12"):
        presets_build(width=12)
    with pytest.raises(Error, match=r"variant must be .* got 'oficial'\. Did you mean 'official'"):
        presets_build(variant="oficial")
    with pytest.raises(UnknownName, match="variant of block-lrnn"):
        presets.block_lrnn(5, variant="mine")
    with pytest.raises(UnknownName, match="residual of block-lrnn"):
        presets.block_lrnn(5, residual="some")
    with pytest.raises(UnknownName, match="head 'three-layer'"):
        LengthwiseConfig(head="three-layer")
    with pytest.raises(Error, match="block lists 1 for 2 layers; list one for each"):
        LengthwiseForCausalLM(made.config(width=8, depth={"name": "fixed", "layers": 2}, block=[{"kind": "bare"}]))
    with pytest.raises(Error, match=r"layers .* must be at least 1, got 0"):
        LengthwiseForCausalLM(presets.block_lrnn(5, layers=0))


def presets_build(**options):
    return build("block-lrnn", vocab_size=5, num_outputs=5, **options)


@pytest.mark.parametrize("name", ["s4", "s4d", "liquid-s4", "lru", "diagonal-lrnn"])
def test_options_of_state_spaces_reach_the_mixer(name):
    classifier = build(name, vocab_size=5, num_outputs=3, width=8, state=6, output="linear", dropout=0.1)
    assert classifier(torch.tensor([[0, 1, 4]])).shape == (1, 3, 3)
    (layer,) = classifier.inner.mixers()
    assert len(layer.output) == 2
    assert layer.name == name
    with pytest.raises(Error, match=r"output must be .* got 'gated'"):
        build(name, vocab_size=5, num_outputs=3, output="gated")
