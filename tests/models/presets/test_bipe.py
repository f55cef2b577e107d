"""The block of LLaMA against Hugging Face's, and BiPE's network against one written down here, to the last rounding."""

import math

import pytest
import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

from lengthwise.errors import Error
from lengthwise.models import LengthwiseForCausalLM, presets

V, D, H, L = 11, 16, 2, 3


def made(config):
    torch.manual_seed(0)
    model = LengthwiseForCausalLM(config).eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.3)
    return model


def llama_weights(model):
    """The weights of a model with the block of LLaMA, by Llama's names."""
    weights = {"model.embed_tokens.weight": model.embedding.weight, "lm_head.weight": model.head.weight}
    weights["model.norm.weight"] = model.norm.weight
    for i, layer in enumerate(model.depth.layers):
        at = f"model.layers.{i}."
        weights |= {
            f"{at}self_attn.{name}_proj.weight": part
            for name, part in zip("qkv", layer.mixer.qkv.weight.chunk(3), strict=True)
        }
        weights[f"{at}self_attn.o_proj.weight"] = layer.mixer.out.weight
        weights |= {f"{at}mlp.{name}_proj.weight": getattr(layer, name).weight for name in ("gate", "up", "down")}
        weights[f"{at}input_layernorm.weight"] = layer.mixer_norm.weight
        weights[f"{at}post_attention_layernorm.weight"] = layer.feed_norm.weight
    return weights


def llama(ours):
    config = LlamaConfig(
        vocab_size=V,
        hidden_size=D,
        intermediate_size=4 * D,
        num_hidden_layers=L,
        num_attention_heads=H,
        rms_norm_eps=1e-5,
        attn_implementation="eager",
    )
    theirs = LlamaForCausalLM(config).eval()
    theirs.load_state_dict(llama_weights(ours))
    return theirs


def test_the_block_is_that_of_llama():
    ours = made(presets.transformer(V, width=D, heads=H, layers=L, position="rope", block="llama"))
    theirs = llama(ours)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    tokens = torch.randint(V, (2, 23))
    torch.testing.assert_close(ours(tokens).logits, theirs(tokens).logits, rtol=1e-4, atol=1e-4)


def test_a_dropped_rope_is_no_position():
    """DroPE, in a model of this library and in a Llama: cos = 1 and sin = 0 at every place."""
    ours = made(presets.transformer(V, width=D, heads=H, layers=L, position="rope", block="llama"))
    tokens = torch.randint(V, (2, 23))
    with_rope = ours(tokens).logits
    ours.config.position = {"name": "none"}
    dropped = LengthwiseForCausalLM(ours.config).eval()
    dropped.load_state_dict(ours.state_dict())
    theirs = llama(ours)
    torch.testing.assert_close(theirs(tokens).logits, with_rope, rtol=1e-4, atol=1e-4)
    theirs.model.rotary_emb.inv_freq.zero_()
    torch.testing.assert_close(theirs(tokens).logits, dropped(tokens).logits, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(dropped(tokens).logits, with_rope, atol=1e-2)


def written_down(model, tokens, ends, rows, kind):
    """BiPE's released network for one row, token by token and head by head, in the model's own weights."""
    inner, outer, i, n = [], [], 0, 0
    for token in tokens.tolist():
        inner.append(min(i, rows - 1))
        outer.append(n)
        i, n = (0, n + 1) if token in ends else (i + 1, n)
    outer = torch.tensor(outer, dtype=torch.float64)
    x = model.embedding.weight[tokens] + model.position.levels[0].table.weight[inner]
    norm = lambda x, weight: x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight  # noqa: E731
    d, T = D // H, len(tokens)
    seen = torch.ones(T, T).tril().bool()
    for layer in model.depth.layers:
        q, k, v = (norm(x, layer.mixer_norm.weight) @ layer.mixer.qkv.weight.T).chunk(3, -1)
        heads = []
        for h in range(H):
            a, b, c = (part[:, h * d : (h + 1) * d] for part in (q, k, v))
            bias = torch.zeros(T, T, dtype=torch.float64)
            if kind == "rope":
                angle = outer[:, None] * 10_000.0 ** (-2 * torch.arange(d // 2, dtype=torch.float64) / d)
                cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
                half = lambda x: torch.cat([-x[:, d // 2 :], x[:, : d // 2]], -1)  # noqa: E731
                a, b = a * cos + half(a) * sin, b * cos + half(b) * sin
            else:
                bias = bias + 96 * 2 ** (-8 * (h + 1) / H) * outer
            logits = (a @ b.T / math.sqrt(d) + bias).masked_fill(~seen, -torch.inf)
            heads.append(logits.softmax(-1) @ c)
        x = x + torch.cat(heads, -1) @ layer.mixer.out.weight.T
        y = norm(x, layer.feed_norm.weight)
        x = x + (F.silu(y @ layer.gate.weight.T) * (y @ layer.up.weight.T)) @ layer.down.weight.T
    return norm(x, model.norm.weight) @ model.head.weight.T


@pytest.mark.parametrize("kind", ["rope", "alibi"])
def test_the_official_network_is_that_of_the_released_code(kind):
    config = presets.bipe(V, width=D, heads=H, layers=L, ends=[3, 7], position=kind, variant="official", max_length=4)
    model = made(config).double()
    assert not [name for name, _ in model.named_parameters() if name.endswith("bias")]
    tokens = torch.randint(V, (41,), generator=torch.Generator().manual_seed(1))
    wanted = written_down(model, tokens, {3, 7}, 4, kind)
    with pytest.warns(UserWarning, match="have 4 rows"):
        logits = model(tokens[None]).logits[0]
    torch.testing.assert_close(logits, wanted, rtol=1e-10, atol=1e-10)


def test_the_papers_network_has_the_plain_block():
    model = made(presets.bipe(V, width=D, heads=H, layers=1))
    assert isinstance(model.norm, torch.nn.LayerNorm)
    assert model.head.bias is not None
    assert model(torch.randint(V, (2, 40))).logits.isfinite().all()


def test_llamas_block_settles_norm_and_activation():
    with pytest.raises(Error, match=r"pre-norm with SwiGLU, got norm 'post'"):
        presets.transformer(V, block="llama", norm="post")
    saved = LengthwiseForCausalLM(presets.transformer(V, width=D, heads=H, layers=1, block="llama")).config.to_dict()
    assert saved["head_bias"] is False
    assert saved["block"]["normalisation"] == "rms"
