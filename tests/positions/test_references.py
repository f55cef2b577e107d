"""Encodings against the code that others run: Hugging Face's Llama, Bloom and T5; and equations written out slowly."""

import math

import pytest
import torch
from transformers import LlamaConfig, T5Config
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention

from lengthwise import positions
from lengthwise.errors import Error
from lengthwise.positions import Places
from lengthwise.positions.score import DistanceBias, KeyBias

H, D = 2, 16
IDS = torch.tensor([[0, 1, 2, 3, 7, 30, 127, 128, 500, 1999]])
PLACES = Places(IDS)
SCALINGS = {
    "none": ({}, {"rope_type": "default"}),
    "interpolation": ({"scaling": "interpolation", "factor": 4}, {"rope_type": "linear", "factor": 4.0}),
    "yarn": (
        {"scaling": "yarn", "factor": 16, "trained": 256},
        {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 256},
    ),
}


def causal(ids):
    return ids[0][:, None] >= ids[0][None, :]


@pytest.mark.parametrize("base", [10_000.0, 500.0])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_rope_is_that_of_llama(scaling, base):
    ours, theirs = SCALINGS[scaling]
    config = LlamaConfig(
        hidden_size=D * H,
        num_attention_heads=H,
        max_position_embeddings=256 * int(theirs.get("factor", 1)),
        rope_parameters={"rope_theta": base, **theirs},
    )
    q, k = torch.randn(2, 1, H, IDS.shape[1], D)
    wanted = apply_rotary_pos_emb(q, k, *LlamaRotaryEmbedding(config)(q, IDS))
    rope = positions.get("rope", width=D * H, heads=H, base=base, **ours)
    # Theirs are angles in fp32, which at place 1,999 are off by 1e-4.
    torch.testing.assert_close((rope.rotate_queries(q, PLACES), rope.rotate(k, PLACES)), wanted, rtol=0, atol=1e-3)
    near = slice(0, 4)
    torch.testing.assert_close(rope.rotate(k, PLACES)[:, :, near], wanted[1][:, :, near], rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", ["rope", "xpos"])
def test_rotary_logits_know_the_distance_alone(name):
    encoding = positions.get(name, width=D * H, heads=H)
    q, k = torch.randn(2, 1, H, 1, D, dtype=torch.float64)
    at = lambda x, t, turn: turn(x, Places(torch.tensor([[t]])))  # noqa: E731
    logits = [(at(q, t + 5, encoding.rotate_queries) * at(k, t, encoding.rotate)).sum(-1) for t in (0, 3, 1000, 20_000)]
    for shifted in logits[1:]:
        torch.testing.assert_close(shifted, logits[0], rtol=1e-9, atol=1e-9)


def test_xpos_is_its_equation():
    encoding = positions.get("xpos", width=4, heads=1, base=100.0)
    q, k = torch.randn(2, 4, dtype=torch.float64)
    turned = lambda x, t, turn: turn(x.view(1, 1, 1, 4), Places(torch.tensor([[t]]))).flatten()  # noqa: E731
    t, s, wanted = 9, 2, 0.0
    for i in range(2):
        z, w = (2 * i + 0.4 * 4) / (1.4 * 4), 100.0 ** (-2 * i / 4)
        a, b = complex(q[i], q[i + 2]), complex(k[i], k[i + 2])
        wanted += (
            z ** ((t - s) / 512) * (a * b.conjugate() * complex(math.cos((t - s) * w), math.sin((t - s) * w))).real
        )
    logit = turned(q, t, encoding.rotate_queries) @ turned(k, s, encoding.rotate)
    assert logit.item() == pytest.approx(wanted, rel=1e-12)


def test_pope_is_its_equation():
    encoding = positions.get("pope", width=D * H, heads=H, base=500.0).double()
    torch.nn.init.uniform_(encoding.delta, -7, 1)
    q, k = torch.randn(2, 1, H, IDS.shape[1], D, dtype=torch.float64)
    turned, turned_keys = encoding.rotate_queries(q, PLACES), encoding.rotate(k, PLACES)
    found = turned @ turned_keys.mT / turned.shape[-1] ** 0.5
    for i, a in enumerate(IDS[0].tolist()):
        for j, b in enumerate(IDS[0].tolist()):
            wanted = torch.zeros(H, dtype=torch.float64)
            for c in range(D):
                angle = (b - a) * 500.0 ** (-c / D) + encoding.delta[:, c].clamp(-2 * math.pi, 0)
                wanted += (q[0, :, i, c].exp() + 1).log() * (k[0, :, j, c].exp() + 1).log() * angle.cos() / D**0.5
            torch.testing.assert_close(found[0, :, i, j], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12])
def test_alibi_is_that_of_bloom(heads):
    S = 40
    theirs = build_alibi_tensor(torch.ones(1, S), heads, torch.float64).view(heads, S)
    places = Places(torch.arange(S)[None])
    bias = positions.get("alibi", width=8 * heads, heads=heads).score(torch.empty(1, heads, S, 8), places, places).bias
    assert isinstance(bias, KeyBias)
    rows = bias.values[0] - bias.values[0, :, :1]  # what is the same for all keys changes no attention
    torch.testing.assert_close(rows, theirs, rtol=1e-6, atol=1e-6)


def test_steep_alibi_keeps_its_digits_far_out():
    ids = torch.arange(131_072 - 4, 131_072)[None]
    steep = positions.get("alibi", width=12, heads=12, steepness=96)
    bias = steep.score(torch.empty(1, 12, 4, 1), Places(ids), Places(ids)).bias.dense().float()[0, :, 0]
    exact = torch.tensor(steep.slopes, dtype=torch.float64)[:, None] * torch.arange(-3, 1)
    assert torch.equal(bias, exact.float())


def test_t5_is_that_of_t5():
    config = T5Config(d_model=H * D, num_heads=H, d_kv=D, is_decoder=True)
    theirs = T5Attention(config, has_relative_attention_bias=True)
    ours = positions.get("t5", width=H * D, heads=H)
    with torch.no_grad():
        ours.table.copy_(theirs.relative_attention_bias.weight)
    S = 300
    places = Places(torch.arange(S)[None])
    bias = ours.score(torch.empty(1, H, S, D), places, places).bias
    assert isinstance(bias, DistanceBias)
    seen = causal(places["token"])
    assert torch.equal(bias.dense()[:, :, seen], theirs.compute_bias(S, S)[:, :, seen])


@pytest.mark.parametrize("name", ["kerple-log", "kerple-power"])
def test_kerple_is_its_equation(name):
    torch.manual_seed(0)
    kerple = positions.get(name, width=H * D, heads=H).double()
    score = kerple.score(torch.empty(1, H, IDS.shape[1], D), PLACES, Places(torch.arange(2000)[None]))
    for h in range(H):
        p, a = (max(x[h].item(), 0.01) for x in (kerple.p, kerple.a))
        for t, s in ((9, 1999), (9, 0), (3, 1), (5, 30)):
            n = IDS[0, t].item() - s
            wanted = -p * math.log(1 + a * n) if name == "kerple-log" else -a * n**p
            assert score.bias.dense()[0, h, t, s].item() == pytest.approx(wanted, abs=1e-12)


def test_kerple_never_crosses_its_bounds():
    """Numbers that training has driven below zero still mean a bias that falls with the distance."""
    for name in ("kerple-log", "kerple-power"):
        kerple = positions.get(name, width=4, heads=1)
        torch.nn.init.constant_(kerple.p, -3)
        torch.nn.init.constant_(kerple.a, 0.5)
        falls = kerple.by_distance(torch.arange(50.0))
        assert (falls.diff() < 0).all()
        falls.sum().backward()
        assert kerple.a.grad.isfinite().all()


def test_refusals():
    with pytest.raises(Error, match=r"width must be even .* got 3"):
        positions.get("rope", width=6, heads=2)
    with pytest.raises(Error, match=r"factor 4 needs a scaling"):
        positions.get("rope", width=8, heads=2, factor=4)
    with pytest.raises(Error, match="YaRN needs trained"):
        positions.get("rope", width=8, heads=2, factor=4, scaling="yarn")
    with pytest.raises(Error, match=r"base must be a number above 1, got 1"):
        positions.get("rope", width=8, heads=2, base=1)


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_partial_rope_is_that_of_gpt_neox(share):
    from transformers import GPTNeoXConfig
    from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding
    from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb as turn

    config = GPTNeoXConfig(hidden_size=D * H, num_attention_heads=H, rotary_pct=share)
    config.rope_parameters = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": share}
    q, k = torch.randn(2, 1, H, IDS.shape[1], D)
    wanted = turn(q, k, *GPTNeoXRotaryEmbedding(config)(q, IDS))
    rope = positions.get("rope", width=D * H, heads=H, share=share, spread=True)
    # Theirs turns the first entries, n with the n after them; ours the first n with the first n of the other half.
    n = int(share * D) // 2
    turned, still = [*range(2 * n)], [*range(2 * n, D)]
    half = len(still) // 2
    order = turned[:n] + still[:half] + turned[n:] + still[half:]
    got = (rope.rotate_queries(q[..., order], PLACES), rope.rotate(k[..., order], PLACES))
    torch.testing.assert_close(got, (wanted[0][..., order], wanted[1][..., order]), rtol=0, atol=1e-3)


def test_with_a_small_base_every_pair_that_turns_turns_often():
    """RoPE-ID: no angle of a longer text is new. As whole turns take 2 pi / w tokens, all end in the trained length."""
    rope = positions.get("rope", width=D * H, heads=H, share=0.5, spread=True, base=16.0)
    w = rope.frequencies(IDS)
    assert (w[: D // 4] > 0).all()
    assert not w[D // 4 :].any()
    assert (2 * math.pi / w[: D // 4]).max() < 128


@pytest.mark.parametrize("masked", [0, 1, 3, 4])
def test_hard_alibi_is_its_equation(masked):
    T, heads = 7, 4
    encoding = positions.get("hard-alibi", width=16, heads=heads, masked=masked)
    places = Places(torch.arange(T)[None])
    bias = encoding.score(torch.zeros(1, heads, T, 4), places, places).bias.dense()[0]
    for h in range(heads):
        for t in range(T):
            seen = [s for s in range(t + 1) if bias[h, t, s] == 0]
            assert seen == [s for s in range(t + 1) if h >= masked or t - s <= h]
            assert all(bias[h, t, s] <= -1e9 for s in range(t + 1) if s not in seen)
    with pytest.raises(Error, match="at most the 4 heads"):
        positions.get("hard-alibi", width=16, heads=heads, masked=5)
