"""The one shell: embedding and positions, a depth policy over layers, a head. The config says which.

    logits = head(norm(depth(embedding_scale * E[tokens] + P[positions])))

The head is linear, or W2 relu(W1 x + b1) + b2.

Shapes: B batch, T tokens, D model width, S outputs.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from .. import mixers, positions
from ..errors import Error, ShapeError, UnknownName
from ..mixers import Layout, Level
from .cache import LengthwiseCache
from .config import LengthwiseConfig
from .depth import Adaptive, Fixed
from .layers import LAYERS
from .learned_chunk import LearnedChunk
from .words import Words, hooked


class LengthwiseForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = LengthwiseConfig
    base_model_prefix = ""
    main_input_name = "input_ids"
    _input_embed_layer = "embedding"
    _tied_weights_keys = {"head.weight": "embedding.weight"}  # noqa: RUF012

    def __init__(self, config: LengthwiseConfig):
        super().__init__(config)
        width = config.width
        self.embedding = nn.Embedding(config.vocab_size, width)
        self.position = _input_position(config)
        self.depth = _depth(config)
        shared = any(m.traits.shares_pad for m in self.mixers()) or self.depth.pad_tokens
        self.pad = nn.Parameter(torch.empty(width)) if shared else None
        self.norm = nn.LayerNorm(width) if config.final_norm else nn.Identity()
        self.hidden = nn.Linear(width, width) if config.head == "two-layer" else None
        self.head = nn.Linear(width, config.outputs)
        self.post_init()
        if self.generation_config is not None:
            self.generation_config.use_cache = self.depth.uncached is None

    def mixers(self) -> list[mixers.Mixer]:
        return [m for m in self.modules() if isinstance(m, mixers.Mixer)]

    def get_output_embeddings(self) -> nn.Linear | None:
        """The head, where it answers in words: a head of `num_outputs` stays as wide when the vocabulary grows."""
        words = self.config.num_outputs is None or self.config.tie_word_embeddings
        return self.head if words else None

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.head = new_embeddings
        if self.config.num_outputs is not None:
            self.config.num_outputs = new_embeddings.out_features

    def _init_weights(self, module: nn.Module) -> None:
        """Every vector enters a map with unit variance and leaves it so; other modules have initialised themselves.

        On PARITY with post-norm, variance 1/fan_in took about two thirds of the steps of 1/(2 fan_in).
        """
        std = self.config.initializer_range
        if module is self and self.pad is not None:
            nn.init.normal_(self.pad)
        elif isinstance(module, nn.Embedding):
            # A table of positions has a say of its own, but is added to the embeddings and must not drown them.
            if std is not None or all(module is not part for part in self.position.modules()):
                nn.init.normal_(module.weight, std=1 / self.config.embedding_scale if std is None else std)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5 if std is None else std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        past_key_values: LengthwiseCache | None = None,
        labels: Tensor | None = None,
        logits_to_keep: int | Tensor = 0,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
    ) -> CausalLMOutputWithPast | tuple:
        """`attention_mask` (B,T): 1 on real tokens, padding left or right; every row gets its unpadded logits.

        `past_key_values`: the tokens follow those it holds, and are added to it; `attention_mask` then covers both.
        `use_cache`: begin one, and return it. Without either nothing is kept.
        `sequence_ids` (B,T): numbers that change where a packed row's next sequence begins.
        `labels` (B,T): shifted here, as everywhere in transformers; -100 is not scored.
        `logits_to_keep`: 1 gives each row's last real token, by the shorter way where the depth policy has one; another
        number the last columns; a tensor those columns; 0 all.
        """
        if input_ids.dim() != 2 or input_ids.shape[1] == 0:
            raise ShapeError(f"input_ids must be (B,T) with T >= 1, got {list(input_ids.shape)}.")
        if labels is not None and not (isinstance(logits_to_keep, int) and logits_to_keep == 0):
            raise Error("labels need the logits of every position: leave logits_to_keep at 0.")
        cache = _cache(past_key_values, use_cache)
        layout = _layout(input_ids, attention_mask, sequence_ids, cache)
        last = isinstance(logits_to_keep, int) and logits_to_keep == 1
        x = self._read(input_ids, layout)
        drawn = self.training and self.config.dropout
        # A table goes around what a hook at the door of the depth sees, or has changed, of x or of its gradient.
        watched = hooked(self.embedding) or self.depth._forward_pre_hooks or self.depth._backward_hooks
        alone = not self.position.at_input and not drawn and not watched
        words = Words(input_ids, self._table(input_ids)) if alone else None
        x = self.depth(x, layout, Level(pad=self.pad), last, cache, words)
        if not last:
            x = x[..., -logits_to_keep:, :] if isinstance(logits_to_keep, int) else x[..., logits_to_keep, :]
        x = self.norm(x)
        logits = self.head(x if self.hidden is None else F.relu(self.hidden(x)))
        if isinstance(self.depth, LearnedChunk) and self.training:
            logits = self.depth.mix(logits)
        loss = None if labels is None else self._loss(logits, labels, layout)
        if return_dict is False:
            return tuple(part for part in (loss, logits, cache) if part is not None)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache)

    def _read(self, input_ids: Tensor, layout: Layout) -> Tensor:
        x = self._scaled(self.embedding(input_ids))
        p = self.position.embed(layout.positions)
        x = x if p is None else x + p.to(x.dtype)
        return F.dropout(x, self.config.dropout, self.training)

    def _table(self, input_ids: Tensor) -> Tensor | None:
        """(V,D): every word as `_read` gives it without positions, where that is less work than the tokens are."""
        V = self.config.vocab_size
        if not self.depth.looks_up or input_ids.numel() <= V:
            return None
        return self._scaled(self.embedding(torch.arange(V, device=input_ids.device)))

    def _scaled(self, x: Tensor) -> Tensor:
        scale = self.config.embedding_scale
        return x if scale == 1 else x * scale

    def _loss(self, logits: Tensor, labels: Tensor, layout: Layout) -> Tensor:
        targets = labels[:, 1:]
        if layout.sequences is not None:
            # The first token of a packed sequence does not follow from the one before it.
            targets = targets.masked_fill(layout.sequences[:, 1:] != layout.sequences[:, :-1], -100)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), targets.flatten(), ignore_index=-100)

    def _prepare_cache_for_generation(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, generation_config: Any, model_kwargs: dict[str, Any], *unused: Any
    ) -> None:
        if generation_config.use_cache is False or model_kwargs.get("past_key_values") is not None:
            return
        if self.depth.uncached:
            raise Error(self.depth.uncached)
        model_kwargs["past_key_values"] = LengthwiseCache()

    def prepare_inputs_for_generation(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: LengthwiseCache | None = None,
        next_sequence_length: int | None = None,
        logits_to_keep: int | None = None,
        **unused: Any,
    ) -> dict[str, Any]:
        """The tokens which the cache does not hold yet; without one, all of them. `unused`: what other models ask."""
        if past_key_values is not None:
            new = next_sequence_length
            if new is None and attention_mask is not None:
                new = attention_mask.shape[1] - past_key_values.get_seq_length()
            input_ids = input_ids if new is None else input_ids[:, -new:]
        return {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "past_key_values": past_key_values,
            "logits_to_keep": 1 if logits_to_keep is None else logits_to_keep,
        }


def _cache(given: Any, use: bool | None) -> LengthwiseCache | None:
    if given is None:
        return LengthwiseCache() if use else None
    if not isinstance(given, LengthwiseCache):
        raise Error(
            f"past_key_values must be a LengthwiseCache, got {type(given).__name__}. Leave it out to begin one."
        )
    return given


def _layout(input_ids: Tensor, mask: Tensor | None, sequences: Tensor | None, cache: LengthwiseCache | None) -> Layout:
    B, T = input_ids.shape
    past = 0 if cache is None else cache.length
    for name, given, length in (("attention_mask", mask, past + T), ("sequence_ids", sequences, T)):
        if given is not None and given.shape != (B, length):
            what = "as the tokens of the cache and these" if length > T else "as input_ids"
            raise ShapeError(f"{name} must be shaped {what}, {[B, length]}, got {list(given.shape)}.")
    if mask is not None and sequences is None and cache is not None and past:
        # One step of decoding need not read the whole mask again.
        layout = cache.follow(mask[:, past:])
        if layout is not None:
            return layout
    if mask is not None and cache is not None and bool(mask.all()):
        mask = None  # as generate() says it of whole rows, which have a faster way
    if cache is not None and cache.padded and mask is None:
        raise Error("attention_mask must go on as it began: give it for the tokens of the cache and the new ones.")
    if sequences is not None:
        return Layout.from_sequences(sequences, None if mask is None else mask.bool())
    return Layout.of(input_ids, past) if mask is None else Layout.from_mask(mask, T)


def _input_position(config: LengthwiseConfig) -> positions.Position:
    position = _position(config, heads=1)
    return position if position.at_input else positions.NoPosition(config.width, 1)


def _position(config: LengthwiseConfig, heads: int) -> positions.Position:
    spec = dict(config.position or {})
    return positions.get(_name("position", spec), width=config.width, heads=heads, **spec)


def _name(kind: str, spec: dict[str, Any]) -> str:
    if "name" not in spec:
        raise Error(f'{kind} must be a dict with a "name", got {spec}.')
    return spec.pop("name")


def _depth(config: LengthwiseConfig) -> Fixed | Adaptive | LearnedChunk:
    """The layers, under the policy that runs them."""
    spec = dict(config.depth or {})
    name = _name("depth", spec)
    known: dict[str, dict[str, Any]] = {
        "fixed": {"layers": 5},
        "adaptive": {"chunk": 2, "thickness": 1, "by": "sequence", "pad_tokens": False},
    }
    if name not in known:
        raise UnknownName("depth", name, known)
    for option in spec:
        if option not in known[name]:
            raise UnknownName(f"option of depth {name!r}", option, known[name])
    spec = {**known[name], **spec}
    if name == "fixed":
        return Fixed(_layers(config, spec["layers"]))
    layers = _layers(config, spec["thickness"])
    chunk = spec["chunk"]
    largest = max(chunk, default=0) if isinstance(chunk, list) else chunk
    for layer in layers:
        if layer.mixer.traits.chunk not in (None, largest):
            raise Error(
                f"mixer and depth must have one chunk, got {layer.mixer.traits.chunk} and {chunk} (of several, the "
                "largest)."
            )
    if not isinstance(chunk, list):
        return Adaptive(layers, chunk, spec["by"], spec["pad_tokens"])
    if spec["pad_tokens"]:
        raise Error("adaptive depth: pad_tokens is for one chunk alone. Leave it out, or name one chunk.")
    return LearnedChunk(layers, chunk, spec["by"])


def _layers(config: LengthwiseConfig, count: int) -> list[nn.Module]:
    if count < 1:
        raise Error(f"depth: layers (of an adaptive depth, thickness) must be at least 1, got {count}.")
    specs = config.mixer if isinstance(config.mixer, list) else [config.mixer or {}] * count
    blocks = config.blocks(count)
    for name, given in (("mixer", specs), ("block", blocks)):
        if len(given) != count:
            raise Error(f"{name} lists {len(given)} for {count} layers; list one for each, or give one for all.")
    return [
        LAYERS[block.kind](config.width, _mixer(config, {**spec}), block, config.dropout)
        for spec, block in zip(specs, blocks, strict=True)
    ]


def _mixer(config: LengthwiseConfig, spec: dict[str, Any]) -> mixers.Mixer:
    name = _name("mixer", spec)
    mixer = mixers.get(name, width=config.width, **spec)
    position = _position(config, mixer.traits.heads)
    if position.at_attention:
        if not mixer.traits.takes_position:
            raise Error(f"position {config.position} acts on attention, and mixer {name!r} takes no positions.")
        mixer.position = position
    return mixer


AutoConfig.register("lengthwise", LengthwiseConfig)
AutoModelForCausalLM.register(LengthwiseConfig, LengthwiseForCausalLM)
