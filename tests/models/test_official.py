"""`variant="official"` is the network of RegularGPT's released code, written here once more, one string at a time."""

import math

import pytest
import torch
from torch import Tensor

from lengthwise.errors import Error
from lengthwise.models import LengthwiseConfig, LengthwiseForCausalLM, presets


def layer_norm(x: Tensor, norm) -> Tensor:
    mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    return (x - mean) / (var + 1e-5).sqrt() * norm.weight + norm.bias


def attention(h: Tensor, mixer, heads: int, C: int) -> Tensor:
    """Every token of h (n, D) over lags 0 … C-1, what lies left of the first masked; r after the scaling."""
    n, D = h.shape
    d = D // heads
    q, k, v = (h @ w.T for w in mixer.qkv.weight.split(D))
    out = torch.zeros_like(h)
    for a in range(heads):
        part = slice(a * d, (a + 1) * d)
        for m in range(n):
            taps = range(min(C, m + 1))
            logits = torch.stack([q[m, part] @ k[m - j, part] / math.sqrt(d) + mixer.r[a, j] for j in taps])
            weights = logits.exp() / logits.exp().sum()
            out[m, part] = sum(w * v[m - j, part] for w, j in zip(weights, taps, strict=True))
    return out @ mixer.out.weight.T


def released(model: LengthwiseForCausalLM, tokens: list[int], heads: int, C: int) -> Tensor:
    """The logits of the last position."""
    width = model.config.width
    h = model.embedding.weight[tokens] * math.sqrt(width)
    groups = 1
    while C**groups < len(tokens):
        groups += 1
    for _ in range(groups):
        missing = -len(h) % C
        h = torch.cat([model.pad.expand(missing, -1), h])
        for layer in model.depth.layers:
            a = layer_norm(h + attention(h, layer.mixer, heads, C), layer.mixer_norm)
            feed = (a @ layer.up.weight.T + layer.up.bias).clamp(min=0) @ layer.down.weight.T + layer.down.bias
            h = layer_norm(a + feed, layer.feed_norm)
        h = h[C - 1 :: C]
    assert len(h) == 1
    return h[0] @ model.head.weight.T + model.head.bias


def make(chunk, thickness, **options):
    torch.manual_seed(0)
    config = presets.regular_gpt(
        5, 4, width=8, heads=2, chunk=chunk, thickness=thickness, variant="official", **options
    )
    model = LengthwiseForCausalLM(config).double().eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return model


@pytest.mark.parametrize("thickness", [1, 2, 3])
@pytest.mark.parametrize("chunk", [2, 3, 5])
def test_to_the_last_rounding(chunk, thickness):
    model = make(chunk, thickness)
    lengths = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 25, 26, 27, 28, 31]
    rows = [torch.randint(0, 5, (n,)) for n in lengths]
    with torch.no_grad():
        wanted = torch.stack([released(model, row.tolist(), 2, chunk) for row in rows])
        alone = torch.stack([model(row[None], logits_to_keep=1).logits[0, 0] for row in rows])
        torch.testing.assert_close(alone, wanted, rtol=1e-12, atol=1e-12)
        for left in (True, False):
            tokens, mask = torch.randint(0, 5, (2, len(rows), 33))
            for i, row in enumerate(rows):
                part = slice(33 - len(row), None) if left else slice(len(row))
                tokens[i, part], mask[i], mask[i, part] = row, 0, 1
            padded = model(tokens, attention_mask=mask, logits_to_keep=1).logits[:, 0]
            torch.testing.assert_close(padded, wanted, rtol=1e-12, atol=1e-12)


def test_with_one_layer_a_group_it_is_the_learned_pad_and_with_two_it_is_not():
    for thickness, same in ((1, True), (2, False)):
        official, learned = make(2, thickness), make(2, thickness, missing="learned-pad")
        learned.load_state_dict(official.state_dict())
        tokens = torch.randint(0, 5, (3, 13))
        with torch.no_grad():
            a, b = (model(tokens, logits_to_keep=1).logits for model in (official, learned))
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-12) == same


def test_gradients_reach_the_pad_and_are_those_of_the_oracle():
    model, tokens = make(3, 2), torch.randint(0, 5, (11,))
    found = torch.autograd.grad(model(tokens[None], logits_to_keep=1).logits.square().sum(), list(model.parameters()))
    wanted = torch.autograd.grad(released(model, tokens.tolist(), 2, 3).square().sum(), list(model.parameters()))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_only_the_last_position_has_an_answer():
    model, tokens = make(2, 2), torch.randint(0, 5, (2, 6))
    with pytest.raises(Error, match=r"only the last position has an answer, and all 6 were asked for\. Ask with"):
        model(tokens)
    with torch.no_grad():
        one = tokens[:, :1]
        torch.testing.assert_close(model(one).logits, model(one, logits_to_keep=1).logits)
    generated = model.generate(tokens, max_new_tokens=3, do_sample=False, pad_token_id=0, attention_mask=tokens * 0 + 1)
    assert generated.shape == (2, 9)


def test_weights_start_as_the_released_ones():
    torch.manual_seed(0)
    config = presets.regular_gpt(500, 4, width=64, chunk=32, variant="official", initialisation="official")
    model = LengthwiseForCausalLM(config)
    (layer,) = model.depth.layers
    found = {
        "embedding": model.embedding.weight * model.config.embedding_scale,
        "pad": model.pad,
        "r": layer.mixer.r,
        **{
            str(i): m.weight for i, m in enumerate([layer.mixer.qkv, layer.mixer.out, layer.up, layer.down, model.head])
        },
    }
    wanted = {"embedding": 0.14, "pad": 0.02, "r": 0.02}
    for name, weights in found.items():
        std = wanted.get(name, 0.11)
        # Four standard errors of a sample's deviation.
        assert float(weights.detach().std()) == pytest.approx(std, rel=4 / (2 * weights.numel()) ** 0.5), name
    assert model.config.embedding_scale == 8


def test_a_recurrence_starts_as_the_released_one():
    torch.manual_seed(0)
    options = {"width": 64, "block": 8, "variant": "official"}
    model = LengthwiseForCausalLM(presets.block_lrnn(5, **options, initialisation="official"))
    mixer = model.depth.layers[0].mixer
    assert float(mixer.initial.detach().std()) == pytest.approx(1, rel=4 / 128**0.5)
    for linear in (mixer.transition[0], mixer.transition[2], mixer.inputs[0], model.head):
        # Torch draws weights and biases uniformly up to 1/sqrt(fan-in).
        bound = linear.in_features**-0.5
        assert float(linear.weight.detach().abs().max()) <= bound
        assert float(linear.weight.detach().std()) == pytest.approx(bound / 3**0.5, rel=0.15)
        assert float(linear.bias.detach().abs().max()) > 0
    usual = LengthwiseForCausalLM(presets.block_lrnn(5, **options))
    assert not usual.depth.layers[0].mixer.initial.any()


def test_what_is_not_initialised_is_refused():
    with pytest.raises(Error, match="weights of initialisation"):
        LengthwiseConfig(width=8, initialisation={"bias": 0.1})
