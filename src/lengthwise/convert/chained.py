"""`to_chain`: chain attention in the place of a Hugging Face model's own, over the same maps, its weights kept.

    Y = (1-γ) (I + γÃ + (γÃ)² + …) A V                                     A: the very weights which the model had

Ã is A without its diagonal (`exclude_diagonal`) or A itself; with `paths="sum"` it is Y / (1-γ).

Later tokens read these only through z = (1-γ) v + γ y, so the model's usual cache serves, with z in the place of v.
Where several query heads share a key head, each has a z of its own: keys are kept once, z for every query head.

Shapes: B batch, T tokens, S keys, H query heads, G key heads, d head width, D model width.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from ..errors import Error, ShapeError
from ..mixers.attention import merge_heads
from ..mixers.chain import Gamma, check_paths, summed
from ..models.presets.attention import layer_numbers
from ..ops.chain import HIDDEN, chain_attention, solved_values
from .families import fields_of, take_over, variant_of, variants


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


class ChainAttention(nn.Module):
    """What the families share: from queries, keys and values to the mixture of heads."""

    layers_name: str
    own_name: str
    """The names of a model's list of layers, and of the attention in a layer."""
    dropout_name: str
    """The name, in the config, of the dropout on attention weights."""
    config: Any

    def __init__(self, own: Any, gamma: Gamma, paths: str, exclude_diagonal: bool):
        """`own`: the attention whose place this takes. Its maps become this one's, under their old names."""
        super().__init__()
        check_paths(paths)
        for name, child in own.named_children():
            if any(True for _ in child.parameters()):
                self.add_module(name, child)
        self.config, self.layer_idx, self.d, self.gamma = own.config, own.layer_idx, own.head_dim, gamma
        self.paths, self.exclude_diagonal = paths, exclude_diagonal

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Any, cache: Any) -> Tensor:
        """(B,T,H·d) of q (B,H,T,d) and k, v (B,G,T,d)."""
        rate = getattr(self.config, self.dropout_name)
        if self.training and rate:
            raise Error(
                f"{type(self).__name__}: attention dropout must be 0 while training, for a dropped weight would break "
                f"every path through it, got {self.dropout_name} = {rate}. Set model.config.{self.dropout_name} = 0."
            )
        T, shared = q.shape[2], q.shape[1] // k.shape[1]
        v = v.repeat_interleave(shared, 1) if shared > 1 else v
        solved, layer = v[:, :, :0], None
        if cache is not None:
            k, stored, layer = self._keep(k, v, cache)
            solved = stored[:, :, : stored.shape[2] - T]
        k = k.repeat_interleave(shared, 1) if shared > 1 else k
        gamma = self.gamma(q)
        options = {"exclude_diagonal": self.exclude_diagonal, "bias": _bias(mask, k), "scale": scale}
        y = chain_attention(q, k, v, gamma, solved=solved, **options)
        if layer is not None:
            layer.values = torch.cat([solved, solved_values(v, y, gamma)], 2)
        return merge_heads(summed(y, gamma) if self.paths == "sum" else y)

    def _keep(self, k: Tensor, v: Tensor, cache: Any) -> tuple[Tensor, Tensor, DynamicLayer]:
        """All keys, and the values: z of the earlier tokens, and of the new ones v, until their z is known."""
        known = isinstance(cache, DynamicCache) and not cache.offloading
        k, v = cache.update(k, v, self.layer_idx) if known else (k, v)
        if not known or type(cache.layers[self.layer_idx]) is not DynamicLayer:
            raise Error(
                f"{type(self).__name__}: past_key_values must be a plain DynamicCache, in which z can be kept, not "
                f"static, sliding, quantised or offloaded, got {type(cache).__name__}. Leave it out, and "
                "cache_implementation too."
            )
        return k, v, cache.layers[self.layer_idx]


class ChainGPT2Attention(ChainAttention):
    layers_name, own_name, dropout_name = "h", "attn", "attn_pdrop"
    c_attn: nn.Module
    c_proj: nn.Module

    def forward(
        self, hidden_states: Tensor, past_key_values: Any = None, attention_mask: Any = None, **unused: Any
    ) -> tuple[Tensor, None]:
        """`unused`: what other kinds of attention ask. None: the weights, which are never all there at once."""
        config = self.config
        q, k, v = (_heads(part, self.d) for part in self.c_attn(hidden_states).chunk(3, -1))
        scale = self.d**-0.5 if config.scale_attn_weights else 1.0
        if config.scale_attn_by_inverse_layer_idx:
            scale = scale / (self.layer_idx + 1)
        y = self.c_proj(self._attend(q, k, v, scale, attention_mask, past_key_values))
        return nn.functional.dropout(y, config.resid_pdrop, self.training), None


class ChainLlamaAttention(ChainAttention):
    """Of Llama and Mistral."""

    layers_name, own_name, dropout_name = "layers", "self_attn", "attention_dropout"
    q_proj: nn.Module
    k_proj: nn.Module
    v_proj: nn.Module
    o_proj: nn.Module

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Any = None,
        past_key_values: Any = None,
        **unused: Any,
    ) -> tuple[Tensor, None]:
        q, k, v = (_heads(part(hidden_states), self.d) for part in (self.q_proj, self.k_proj, self.v_proj))
        q, k = apply_rotary_pos_emb(q, k, *position_embeddings)
        return self.o_proj(self._attend(q, k, v, self.d**-0.5, attention_mask, past_key_values)), None


def _heads(x: Tensor, d: int) -> Tensor:
    """(B,T,H·d) -> (B,H,T,d)."""
    return x.unflatten(-1, (-1, d)).transpose(1, 2)


def _bias(mask: Any, k: Tensor) -> Tensor | None:
    """What transformers' mask (B,1,T,S), true or 0 where a key may be read, adds to the logits."""
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.dim() != 4:
        raise Error(
            "chain attention reads the masks of the attention implementations 'sdpa' and 'eager', (B,1,T,S), got "
            f"{list(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__}. "
            'Use model.set_attn_implementation("sdpa").'
        )
    mask = mask[..., : k.shape[2]]
    if mask.dtype == torch.bool:
        return torch.where(mask, 0.0, HIDDEN)
    return mask.float().clamp(min=HIDDEN)


def attention_of(config: Any) -> type[ChainAttention]:
    """Returns what takes the place of attention in models of this config, or config class."""
    return ChainGPT2Attention if config.model_type == "chain-gpt2" else ChainLlamaAttention


class Chained:
    """Mixed in before a model's own class: chain attention in the layers which the config names."""

    def __init__(self, config: Any):
        super().__init__(config)  # pyright: ignore[reportCallIssue]
        self.install()

    def install(self) -> None:
        """Put chain attention into the chosen layers."""
        base, config = self.base_model, self.config  # pyright: ignore[reportAttributeAccessIssue]
        kind = attention_of(config)
        layers = getattr(base, kind.layers_name)
        choice = "all" if config.chain_layers is None else config.chain_layers
        for i in layer_numbers("chain_layers", choice, len(layers)):
            own = getattr(layers[i], kind.own_name)
            gamma = Gamma(config.num_attention_heads, config.gamma, config.learn_gamma)
            # A weight, not a bias or a norm: the device and precision which the layer works in.
            gamma = gamma.to(next(own.parameters()))
            setattr(layers[i], kind.own_name, kind(own, gamma, config.paths, config.exclude_diagonal))
        base.register_forward_pre_hook(_refuse, with_kwargs=True)


def _refuse(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
    tokens = args[0] if args else kwargs.get("input_ids")
    tokens = kwargs.get("inputs_embeds") if tokens is None else tokens
    if isinstance(tokens, Tensor) and tokens.dim() > 1 and tokens.shape[1] == 0:
        raise ShapeError(f"input_ids must be (B,T) with T >= 1, got {list(tokens.shape)}.")
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


CHAINED = variants("Chain", Chained, ChainFields)


def to_chain(
    model: nn.Module,
    gamma: float = 0.9,
    layers: Literal["all", "last"] | Sequence[int] = "all",
    *,
    learn_gamma: bool = False,
    paths: Literal["mean", "sum"] = "mean",
    exclude_diagonal: bool = True,
) -> PreTrainedModel:
    """The model with chain attention in `layers` ("all", "last" or a list); all its weights are taken over.

    `gamma`: 0 gives the model's own logits, and the paper's is 0.9. `learn_gamma`: one per head, from there on learned.
    `paths`, `exclude_diagonal`: as in the mixer "chain"; the defaults are the paper's.
    Dropout on attention weights is set to 0, with a warning: chain attention never holds these weights.
    Use what is returned, and no longer what was given; give a `copy.deepcopy` to keep both.
    """
    kind = variant_of(model, CHAINED, "to_chain", "chain attention")
    options = {"learn_gamma": learn_gamma, "paths": paths, "exclude_diagonal": exclude_diagonal}
    config = _config(model, kind, gamma, layers, options)
    _check_layers(model, config)
    chained = take_over(model, kind, config)
    chained.install()
    return chained.train(model.training)


def _config(model: Any, kind: Any, gamma: float, layers: str | Sequence[int], options: dict[str, Any]) -> Any:
    """The model's config as that of its chained kind, or an Error with the reason why not."""
    old, name = model.config, type(model).__name__
    if getattr(old, "add_cross_attention", False):
        raise Error(f"to_chain: {name} has cross attention, whose keys are another text's: no chains lead through it.")
    window = getattr(old, "sliding_window", None)
    if window is not None and window < old.max_position_embeddings:
        raise Error(
            f"to_chain: {name} attends within a sliding window of {window} tokens, shorter than its "
            f"{old.max_position_embeddings} positions, and chains would lead out of it. For texts no longer than the "
            "window it changes nothing: set model.config.sliding_window = None."
        )
    if old._attn_implementation not in ("eager", "sdpa"):
        raise Error(
            f"to_chain: {name} must have attention implementation 'sdpa' or 'eager', whose masks are understood, "
            f'got {old._attn_implementation!r}. Use model.set_attn_implementation("sdpa").'
        )
    dropout = attention_of(kind.config_class).dropout_name
    if rate := getattr(old, dropout):
        warnings.warn(
            f"to_chain: {dropout} = {rate} becomes 0, for chain attention never holds the weights it would drop.",
            stacklevel=3,
        )
    chosen = layer_numbers("to_chain: layers", layers, old.num_hidden_layers)
    if not isinstance(gamma, int | float):
        raise Error(f"to_chain: gamma is a number, got {gamma!r}.")
    Gamma(1, gamma, options["learn_gamma"])  # raises unless γ is in range
    fields = {**fields_of(old), dropout: 0.0}
    if window is not None:
        fields["sliding_window"] = None  # as no text is longer, and the cache would cut its keys off
    return kind.config_class(**fields, chain_layers=chosen, gamma=float(gamma), **options)


def _check_layers(model: Any, config: Any) -> None:
    """Raises unless the attention of the chosen layers is the model's own."""
    kind = attention_of(config)
    for i in config.chain_layers:
        own = getattr(getattr(model.base_model, kind.layers_name)[i], kind.own_name)
        expected = type(model).__module__
        if type(own).__module__ != expected:
            place = f"{model.base_model_prefix}.{kind.layers_name}.{i}.{kind.own_name}"
            raise Error(
                f"to_chain: {place} must be the model's own attention, got {type(own).__name__} of "
                f"{type(own).__module__}. Leave layer {i} out of layers, or put the original back."
            )
