"""What a conversion and a converted model refuse, with the reason."""

import pytest
import torch
from transformers import DynamicCache, GPT2Config, GPT2ForSequenceClassification, GPT2LMHeadModel, StaticCache

from lengthwise.convert import to_chain
from lengthwise.errors import Error, ShapeError
from lengthwise.models import LengthwiseForCausalLM, presets

from .made import GPT2, HEADS, converted, lora, original, tokens


def test_refuses_models():
    sliding = {"sliding_window": 8}
    for model, match in (
        (GPT2ForSequenceClassification(GPT2Config(**GPT2)), "got GPT2ForSequenceClassification"),
        (torch.nn.Linear(2, 2), "got Linear"),
        (LengthwiseForCausalLM(presets.transformer(2)), "got LengthwiseForCausalLM"),
        (HEADS["gpt2"](add_cross_attention=True), "cross attention, whose keys are another text's"),
        (HEADS["mistral"](**sliding), "sliding window of 8 tokens, shorter than its 64 positions"),
        (converted("gpt2"), "ChainGPT2LMHeadModel has chain attention already"),
    ):
        with pytest.raises(Error, match=match):
            to_chain(model)
    model = HEADS["gpt2"]()
    model.transformer.h[1].attn = torch.nn.Identity()
    with pytest.raises(Error, match=r"transformer\.h\.1\.attn must be the model's own attention, got Identity"):
        to_chain(model)
    assert type(to_chain(model, layers=[0, 2]).transformer.h[1].attn) is torch.nn.Identity
    model = HEADS["llama"]()
    model.set_attn_implementation("flex_attention")
    with pytest.raises(Error, match="'sdpa' or 'eager', whose masks are understood, got 'flex_attention'"):
        to_chain(model)
    model.set_attn_implementation("sdpa")
    for options, match in (
        ({"gamma": 1.0}, "at least 0 and below 1, got 1"),
        ({"gamma": -0.1}, "at least 0 and below 1"),
        ({"gamma": 0.0, "learn_gamma": True}, "start above 0"),
        ({"layers": [3]}, "different layers of 0 to 2"),
        ({"layers": []}, "different layers of 0 to 2"),
        ({"paths": "all"}, "Unknown paths of chain 'all'"),
        ({"layers": "every"}, "Unknown to_chain: layers 'every'"),
    ):
        with pytest.raises(Error, match=match):
            to_chain(model, **options)
    assert type(model.model.layers[0].self_attn).__name__ == "LlamaAttention"  # nothing was changed


def test_refuses_a_wrapped_model():
    with pytest.raises(Error, match="convert first, then wrap"):
        to_chain(lora(HEADS["gpt2"](), "c_attn"))


def test_refuses_masks_it_cannot_read():
    attention = converted("gpt2").transformer.h[0].attn
    for mask, got in ((torch.ones(1, 2), r"\[1, 2\]"), ("a block mask", "str")):
        with pytest.raises(Error, match=rf"the masks of the attention implementations .* got {got}"):
            attention(torch.zeros(1, 2, 16).double(), attention_mask=mask)


def test_refuses_calls():
    x = tokens()
    for name in HEADS:
        model = converted(name)
        with pytest.raises(ShapeError, match=r"T >= 1, got \[3, 0\]"):
            model(x[:, :0])
        with pytest.raises(ShapeError, match=r"T >= 1, got \[3, 0, 16\]"):
            model(inputs_embeds=torch.zeros(3, 0, 16).double())
        with pytest.raises(Error, match="output_attentions"):
            model(x, output_attentions=True)
        whole = torch.ones(3, 1, 20, 20, dtype=torch.bool)
        assert torch.equal(model(x, attention_mask=whole.tril()).logits, model(x).logits)
        for mask in (whole, torch.zeros(3, 1, 20, 20)):
            with pytest.raises(Error, match="a mask by which tokens read later ones"):
                model(x, attention_mask=mask)
        half = torch.zeros(3, 1, 20, 20, dtype=torch.float16).masked_fill(~whole.tril(), torch.finfo(torch.float16).min)
        torch.testing.assert_close(model(x, attention_mask=half).logits, model(x).logits)
        with pytest.raises(Error, match="causal"):
            model(x, is_causal=False)
        with pytest.raises(Error, match="layers is"):
            to_chain(original(name), layers=1)
        with pytest.raises(Error, match="got StaticCache"):
            model(x, past_key_values=StaticCache(config=model.config, max_cache_len=32))
        with pytest.raises(Error, match="plain DynamicCache"):
            model.generate(x, max_new_tokens=2, cache_implementation="static")
        with pytest.raises(Error, match="plain DynamicCache"):
            model(x, past_key_values=DynamicCache(offloading=True))
        dropout = "attn_pdrop" if name == "gpt2" else "attention_dropout"
        setattr(model.config, dropout, 0.1)
        with pytest.raises(Error, match="attention dropout must be 0 while training"):
            model.train()(x)


def test_attention_dropout_is_left_out_with_a_warning_and_other_dropout_stays(tmp_path):
    HEADS["gpt2"](attn_pdrop=0.1, resid_pdrop=0.1).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="attn_pdrop = 0.1 becomes 0"):
        model = to_chain(GPT2LMHeadModel.from_pretrained(tmp_path)).train()
    assert (model.config.attn_pdrop, model.config.resid_pdrop) == (0.0, 0.1)
    model.activation_checkpointing_enable()
    model(tokens(), labels=tokens()).loss.backward()
