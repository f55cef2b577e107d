"""The Hugging Face models that are converted, and classes for what they become: the same modules under another config.

A converted model's type ("chain-gpt2", "segmented-llama", …) is not that of the original, so that what is saved never
loads as something else.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
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

from ..errors import Error
from ..models.portable import Portable

ORIGINALS: tuple[tuple[Any, ...], ...] = (
    (GPT2Config, GPT2Model, GPT2LMHeadModel),
    (LlamaConfig, LlamaModel, LlamaForCausalLM),
    (MistralConfig, MistralModel, MistralForCausalLM),
)
"""Of each family the config, the model without a head, and that with one."""
UNLIKE = ("model_type", "architectures", "transformers_version")
"""Fields of a config that say what class it is of, and are not taken over."""


def variants(prefix: str, mixin: type, fields: type) -> dict[type, Any]:
    """Makes and registers a class for each original, with `mixin` before it, whose config has these fields besides.

    They are names of the mixin's module, as GPT2Model with the prefix "Chain" is ChainGPT2Model.
    """
    made: dict[type, Any] = {}

    def named(bases: tuple[type, ...], **attributes: Any) -> Any:
        name = prefix + bases[-1].__name__
        kind = type(name, bases, {"__module__": mixin.__module__, **attributes})
        setattr(sys.modules[mixin.__module__], name, kind)
        return kind

    for config, *models in ORIGINALS:
        own = named((Portable, fields, config), model_type=f"{prefix.lower()}-{config.model_type}")
        made |= {model: named((mixin, model), config_class=own) for model in models}
        AutoConfig.register(own.model_type, own)
        for auto, model in zip((AutoModel, AutoModelForCausalLM), models, strict=True):
            auto.register(own, made[model])
    return made


def variant_of(model: nn.Module, among: dict[type, Any], what: str, has: str) -> Any:
    """Returns the class that this model becomes; `what` and `has` name the conversion and what it gives in errors."""
    if type(model) in among.values():
        raise Error(f"{what}: {type(model).__name__} has {has} already. Convert the original.")
    if type(model) not in among:
        known = ", ".join(kind.__name__ for kind in among)
        raise Error(
            f"{what}: the model must be a {known}, got {type(model).__name__}. Unwrap it if it is one of them inside a "
            "wrapper (PEFT: convert first, then wrap)."
        )
    return among[type(model)]


def fields_of(config: Any) -> dict[str, Any]:
    """Returns what the config of the new class takes over from the old one."""
    return {name: value for name, value in config.to_dict().items() if name not in UNLIKE}


def take_over(model: Any, kind: Any, config: Any) -> Any:
    """Returns a model of class `kind` with this config and the modules of `model`, for the caller to change."""
    config._attn_implementation = model.config._attn_implementation
    # Nothing is allocated: all that holds weights is then taken from the model.
    with torch.device("meta"):
        made = kind(config)
    old = model.config
    for name, child in model.named_children():
        setattr(made, name, child)
    for module in made.modules():
        if getattr(module, "config", None) is old:
            module.config = config
    made.generation_config = getattr(model, "generation_config", None)
    return made
