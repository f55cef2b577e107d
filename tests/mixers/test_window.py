"""What softmax attention reads: a window, against its formula; runs, which relative positions do not see; RNoPE-SWA."""

import math

import pytest
import torch

from lengthwise import models
from lengthwise.mixers import Layout
from lengthwise.models import LengthwiseForCausalLM, presets

from . import made

H, D = 2, 8


@pytest.mark.parametrize("T", [1, 2, 13])
@pytest.mark.parametrize("window", [1, 3, 13, 40])
def test_it_is_its_formula(T, window):
    torch.manual_seed(0)
    mixer, d = made.mixer("softmax", width=D, heads=H, window=window).double(), D // H
    x = torch.randn(1, T, D, dtype=torch.float64, requires_grad=True)
    q, k, v = (part[0] for part in mixer.qkv(x).chunk(3, -1))
    rows = []
    for t in range(T):
        near = slice(max(0, t - window + 1), t + 1)
        heads = [slice(h * d, (h + 1) * d) for h in range(H)]
        rows.append(torch.cat([(k[near, h] @ q[t, h] / math.sqrt(d)).softmax(0) @ v[near, h] for h in heads]))
    wanted, got = mixer.out(torch.stack(rows)), mixer(x, layout=Layout.of(x))[0][0]
    torch.testing.assert_close(got, wanted)
    gradients = [torch.autograd.grad(y.square().sum(), x, retain_graph=True)[0] for y in (got, wanted)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("position", ["none", "rope", "alibi", "t5", "kerple-log", "transformer-xl", "xpos", "pope"])
def test_relative_positions_see_no_run_that_begins_a_string(position):
    """All tokens of it read the mean of equal values, so none knows how many there are; what follows the run does."""
    tokens = torch.tensor([[1] * 6 + [0], [1] * 5 + [0, 1]])
    torch.manual_seed(0)
    model = models.build("transformer", vocab_size=2, width=D, heads=H, layers=3, position=position)
    with torch.no_grad():
        y = model.double().eval().inner(tokens).logits
    assert (y[0, 1:6] - y[0, 0]).abs().max() < 1e-12
    assert (y[0, 6] - y[1, 5]).abs().max() > 1e-6


@pytest.mark.parametrize("position", ["learned", "sinusoidal"])
def test_absolute_positions_see_it(position):
    torch.manual_seed(0)
    model = models.build("transformer", vocab_size=2, width=D, heads=H, layers=3, position=position)
    with torch.no_grad():
        y = model.double().eval().inner(torch.ones(1, 6, dtype=torch.long)).logits[0]
    assert (y[1:] - y[:-1]).abs().amax(1).min() > 1e-6


def test_rnope_swa_reads_near_with_positions_and_far_without():
    config = presets.transformer(5, width=D, heads=H, layers=5, position="rope", window=4, block="llama")
    near, far = {"window": 4}, {"positioned": False}
    kinds = [{k: v for k, v in layer.items() if k not in ("name", "heads", "biases")} for layer in config.mixer]
    assert kinds == [near, near, near, far, near]
    model = LengthwiseForCausalLM(config).double().eval()
    tokens = torch.randint(5, (1, 60))
    changed = tokens.clone()
    changed[0, 0] = (tokens[0, 0] + 1) % 5
    with torch.no_grad():
        moved = (model(tokens).logits - model(changed).logits)[0].abs().amax(1)
    assert moved[-1] > 0, "the far layer reads the first token"
    three = LengthwiseForCausalLM(
        presets.transformer(5, width=D, heads=H, layers=3, position="rope", window=4)
    ).double()
    with torch.no_grad():
        moved = (three.eval()(tokens).logits - three(changed).logits)[0].abs().amax(1)
    assert moved[:10].max() > 0
    assert not moved[10:].any(), "three layers of four tokens reach nine back"
