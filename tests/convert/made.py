"""Small models of every family, before and after conversion."""

import pytest
import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Model,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaModel,
    MistralConfig,
    MistralForCausalLM,
    MistralModel,
)

from lengthwise.convert import to_chain

TOKENS = {"vocab_size": 11, "bos_token_id": 0, "eos_token_id": None, "initializer_range": 0.3}
SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4}
GPT2 = {"n_positions": 64, "n_embd": 16, "num_hidden_layers": 3, "n_head": 4, "attn_pdrop": 0.0, **TOKENS}
LLAMA = {**SIZES, "num_key_value_heads": 2, "max_position_embeddings": 64, **TOKENS}
HEADS = {
    "gpt2": lambda **more: GPT2LMHeadModel(GPT2Config(**{**GPT2, **more})),
    "llama": lambda **more: LlamaForCausalLM(LlamaConfig(**{**LLAMA, **more})),
    "mistral": lambda **more: MistralForCausalLM(MistralConfig(**{**LLAMA, "sliding_window": None, **more})),
}
BARE = {
    "gpt2 bare": lambda: GPT2Model(GPT2Config(**GPT2)),
    "llama bare": lambda: LlamaModel(LlamaConfig(**LLAMA)),
    "mistral bare": lambda: MistralModel(MistralConfig(**LLAMA, sliding_window=64)),
}


def original(name, **more):
    torch.manual_seed(0)
    model = {**HEADS, **BARE}[name](**more).double().eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.3)
    return model


def converted(name, own=None, **options):
    model = to_chain(original(name, **(own or {})), **options)
    for n, p in model.named_parameters():
        if "gamma" in n:
            torch.nn.init.normal_(p)
    return model


def lora(model, *maps, **options):
    """`model` under LoRA on these maps."""
    peft = pytest.importorskip("peft")
    fan_in = {"fan_in_fan_out": "c_attn" in maps}  # GPT-2 keeps its maps transposed
    return peft.get_peft_model(model, peft.LoraConfig(target_modules=list(maps), r=4, **fan_in, **options))


def tokens(B=3, T=20):
    return torch.randint(1, 11, (B, T), generator=torch.Generator().manual_seed(1))
