"""GPT-2, Llama and Mistral with chain attention in some layers, as classes of their own.

Their model types ("chain-gpt2", …) are not those of the originals, so that what is saved never loads as something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
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
    PreTrainedModel,
)

from ..errors import Error, ShapeError
from ..mixers.chain import Gamma
from ..models.portable import Portable
from ..models.presets.attention import layer_numbers
from ..ops.chain import HIDDEN
from .attention import ChainAttention, ChainGPT2Attention, ChainLlamaAttention


@dataclass(init=False, repr=False, eq=False)
class ChainFields:
    """What the config of a chained model says besides."""

    chain_layers: list[int] | None = None
    """The layers with chain attention; None: all."""
    gamma: float = 0.9
    """γ; where it is learned, what it started at."""
    learn_gamma: bool = False
    paths: str = "mean"
    """"mean" or "sum" over paths, and whether they leave out each token's attention to itself: as in the mixer."""
    exclude_diagonal: bool = True


class ChainGPT2Config(Portable, ChainFields, GPT2Config):
    model_type = "chain-gpt2"


class ChainLlamaConfig(Portable, ChainFields, LlamaConfig):
    model_type = "chain-llama"


class ChainMistralConfig(Portable, ChainFields, MistralConfig):
    model_type = "chain-mistral"


@dataclass(frozen=True)
class ChainFamily:
    """Where a family keeps its attention, and what takes its place."""

    layers: str
    attention: str
    chain: type[ChainAttention]


GPT2 = ChainFamily("h", "attn", ChainGPT2Attention)
LLAMA = ChainFamily("layers", "self_attn", ChainLlamaAttention)


class Chained:
    """Mixed in before a model's own class: chain attention in the layers which the config names."""

    family: ChainFamily

    def __init__(self, config: Any):
        super().__init__(config)  # pyright: ignore[reportCallIssue]
        self.install()

    def install(self) -> None:
        """Put chain attention into the chosen layers."""
        base, config = self.base_model, self.config  # pyright: ignore[reportAttributeAccessIssue]
        layers = getattr(base, self.family.layers)
        choice = "all" if config.chain_layers is None else config.chain_layers
        for i in layer_numbers("chain_layers", choice, len(layers)):
            own = getattr(layers[i], self.family.attention)
            gamma = Gamma(config.num_attention_heads, config.gamma, config.learn_gamma)
            # A weight, not a bias or a norm: the device and precision which the layer works in.
            gamma = gamma.to(next(own.parameters()))
            setattr(
                layers[i], self.family.attention, self.family.chain(own, gamma, config.paths, config.exclude_diagonal)
            )
        base.register_forward_pre_hook(_refuse, with_kwargs=True)


def _refuse(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
    given = args[0] if args else kwargs.get("input_ids")
    given = kwargs.get("inputs_embeds") if given is None else given
    if isinstance(given, Tensor) and given.dim() > 1 and given.shape[1] == 0:
        raise ShapeError(f"input_ids must be (B,T) with T >= 1, got {list(given.shape)}.")
    if kwargs.get("output_attentions", module.config.output_attentions):
        raise Error(
            "output_attentions: chain attention never holds its weights all at once, and what a token reads is not its "
            "weights alone. Leave it out."
        )
    mask = kwargs.get("attention_mask")
    # Masks (B,S) are made causal by the model; one for every pair is taken as it is.
    if isinstance(mask, Tensor) and mask.dim() == 4:
        T, S = mask.shape[-2:]
        # In half precision no number is as low as HIDDEN: there its lowest is meant.
        readable = mask if mask.dtype == torch.bool else mask > max(HIDDEN, torch.finfo(mask.dtype).min / 2)
        if readable.triu(S - T + 1).any():
            raise Error(
                "attention_mask: chain attention is causal, got a mask by which tokens read later ones. Hide those "
                "too, or give a mask (B,S)."
            )
    if kwargs.get("is_causal") is False:
        raise Error("is_causal: chain attention is causal, got False. Leave it out.")


class ChainGPT2Model(Chained, GPT2Model):
    config_class, family = ChainGPT2Config, GPT2


class ChainGPT2LMHeadModel(Chained, GPT2LMHeadModel):
    config_class, family = ChainGPT2Config, GPT2


class ChainLlamaModel(Chained, LlamaModel):
    config_class, family = ChainLlamaConfig, LLAMA


class ChainLlamaForCausalLM(Chained, LlamaForCausalLM):
    config_class, family = ChainLlamaConfig, LLAMA


class ChainMistralModel(Chained, MistralModel):
    config_class, family = ChainMistralConfig, LLAMA


class ChainMistralForCausalLM(Chained, MistralForCausalLM):
    config_class, family = ChainMistralConfig, LLAMA


CHAINED: dict[type[PreTrainedModel], Any] = {
    GPT2Model: ChainGPT2Model,
    GPT2LMHeadModel: ChainGPT2LMHeadModel,
    LlamaModel: ChainLlamaModel,
    LlamaForCausalLM: ChainLlamaForCausalLM,
    MistralModel: ChainMistralModel,
    MistralForCausalLM: ChainMistralForCausalLM,
}

for config_class, bare, head in (
    (ChainGPT2Config, ChainGPT2Model, ChainGPT2LMHeadModel),
    (ChainLlamaConfig, ChainLlamaModel, ChainLlamaForCausalLM),
    (ChainMistralConfig, ChainMistralModel, ChainMistralForCausalLM),
):
    AutoConfig.register(config_class.model_type, config_class)
    AutoModel.register(config_class, bare)
    AutoModelForCausalLM.register(config_class, head)
