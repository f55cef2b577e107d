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
from ..errors import Error, ShapeError
from ..mixers import Layout, Level
from ..positions import Placed
from .assembly import make_depth, make_position
from .cache import LengthwiseCache
from .config import LengthwiseConfig
from .equal_tokens import EqualTokens, draws, refusal
from .learned_chunk import LearnedChunk


class LengthwiseForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = LengthwiseConfig
    base_model_prefix = ""
    main_input_name = "input_ids"
    _input_embed_layer = "embedding"
    _tied_weights_keys = {"head.weight": "embedding.weight"}  # noqa: RUF012
    reuses_equal_tokens = False
    """Whether what equal tokens share is computed once: set by `reuse_equal_tokens`."""

    def __init__(self, config: LengthwiseConfig):
        super().__init__(config)
        width = config.width
        if width < 1:
            raise Error(f"width must be at least 1, got {width}.")
        self.embedding = nn.Embedding(config.vocab_size, width)
        position = make_position(config, heads=config.heads)
        self.position = positions.NoPosition(config.width, 1) if position.in_each_layer else position
        # It names the ids without weights; in a tuple, and so no part of the module tree.
        self._placer = (position,)
        self.depth = make_depth(config)
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

    def reuse_refusal(self, *, stacked: bool = False) -> str | None:
        """Why `reuse_equal_tokens` would be refused now; None where it would not. `stacked`: for torch.func.vmap."""
        return refusal(self, stacked)

    def reuse_equal_tokens(self, on: bool = True, *, stacked: bool = False) -> None:
        """Compute what equal tokens share once, from now on, or compute every token (`on=False`, the default state).

        Logits and gradients are the same and take less time. Switch it off before you register hooks or shard the
        model: they would meet every different token once. `train()` switches it off where dropout begins to draw.
        """
        if on and (reason := refusal(self, stacked)):
            raise Error(f"reuse_equal_tokens: {reason}.")
        self.reuses_equal_tokens = on

    def train(self, mode: bool = True) -> LengthwiseForCausalLM:
        super().train(mode)
        if self.reuses_equal_tokens and draws(self):
            self.reuses_equal_tokens = False
        return self

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
        given, std = self.config.initialisation or {}, self.config.initializer_range
        if module is self and self.pad is not None:
            nn.init.normal_(self.pad, std=given.get("pad", 1.0))
        elif isinstance(module, mixers.SlidingDilated) and "r" in given:
            nn.init.normal_(module.r, std=given["r"])
        elif isinstance(module, mixers.BlockLRNN) and "initial" in given and module.initial is not None:
            nn.init.normal_(module.initial, std=given["initial"])
        elif isinstance(module, nn.Embedding):
            std = given.get("embedding", std)
            # A table of positions has a say of its own, but is added to the embeddings and must not drown them.
            if std is not None or all(module is not part for part in self.position.modules()):
                nn.init.normal_(module.weight, std=1 / self.config.embedding_scale if std is None else std)
        elif isinstance(module, nn.Linear) and given.get("linear") != "torch":
            std = given.get("linear", std)
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

        `past_key_values`: the tokens follow those it holds, and are added to it. `attention_mask` then covers both, or
        is left out where all new tokens are real, which spares a look at it.
        `use_cache`: begin one, and return it. Without either nothing is kept.
        `sequence_ids` (B,T): numbers that change where a packed row's next sequence begins.
        `labels` (B,T): shifted here, as everywhere in transformers; -100 is not scored.
        `logits_to_keep`: 1 gives each row's last real token, by the shorter way where the depth policy has one; another
        number the last columns; a tensor those columns; 0 all.
        """
        if input_ids.dim() != 2 or input_ids.shape[1] == 0:
            raise ShapeError(f"input_ids must be (B,T) with T >= 1, got {list(input_ids.shape)}.")
        if past_key_values is not None and not isinstance(past_key_values, LengthwiseCache):
            kind = type(past_key_values).__name__
            raise Error(f"past_key_values must be a LengthwiseCache, got {kind}. Leave it out to begin one.")
        if labels is not None and not (isinstance(logits_to_keep, int) and logits_to_keep == 0):
            raise Error("labels need the logits of every position: leave logits_to_keep at 0.")
        cache = LengthwiseCache() if past_key_values is None and use_cache else past_key_values
        if cache is not None:
            cache.of(self)
        if attention_mask is None and sequence_ids is None:
            layout = Layout.of(input_ids) if cache is None else cache.following(input_ids)
        else:
            layout = _layout(input_ids, attention_mask, sequence_ids, cache)
        placer, placed = self._placer[0], None
        if placer.at_input or placer.at_attention:
            places, after = placer.place(input_ids, layout, None if cache is None else cache.place_state)
            if cache is not None:
                cache.place_state = after
            placed = Placed(None if placer.in_each_layer else placer, places)

        x = self.embedding(input_ids)
        if self.config.embedding_scale != 1:
            x = x * self.config.embedding_scale
        if placed is not None and placer.at_input:
            p = self.position.embed(placed.places)
            assert p is not None
            x = x + p.to(x.dtype)
        x = F.dropout(x, self.config.dropout, self.training)
        equal = self._equal_tokens(input_ids) if self.reuses_equal_tokens else None
        last = isinstance(logits_to_keep, int) and logits_to_keep == 1
        x = self.depth(x, layout, Level(pad=self.pad), last, cache, equal, placed if placer.at_attention else None)
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

    def _equal_tokens(self, input_ids: Tensor) -> EqualTokens | None:
        if not self.depth.looks_up:
            return EqualTokens(input_ids, None)
        V = self.config.vocab_size
        if input_ids.numel() <= V:
            return None  # the table would be more work than the tokens are
        table = self.embedding(torch.arange(V, device=input_ids.device))
        scale = self.config.embedding_scale
        return EqualTokens(input_ids, table if scale == 1 else table * scale)

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
        is_first_iteration: bool | None = False,
        **unused: Any,
    ) -> dict[str, Any]:
        """The tokens which the cache does not hold yet; without one, all of them. `unused`: what other models ask."""
        if past_key_values is not None:
            new = next_sequence_length
            if new is None and attention_mask is not None:
                new = attention_mask.shape[1] - past_key_values.get_seq_length()
            input_ids = input_ids if new is None else input_ids[:, -new:]
            if past_key_values.length and not is_first_iteration:
                attention_mask = None  # what generate() has appended is real, and the cache knows the prompt's padding
        return {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "past_key_values": past_key_values,
            "logits_to_keep": 1 if logits_to_keep is None else logits_to_keep,
        }


def _layout(input_ids: Tensor, mask: Tensor | None, sequences: Tensor | None, cache: LengthwiseCache | None) -> Layout:
    B, T = input_ids.shape
    past = 0 if cache is None else cache.length
    for name, given, length in (("attention_mask", mask, past + T), ("sequence_ids", sequences, T)):
        if given is not None and given.shape != (B, length):
            what = "as the tokens of the cache and these" if length > T else "as input_ids"
            raise ShapeError(f"{name} must be shaped {what}, {[B, length]}, got {list(given.shape)}.")
    if sequences is not None:
        return Layout.from_sequences(sequences, None if mask is None else mask.bool())
    assert mask is not None
    # Whole rows have a faster way, and a cache that goes on knows all but the new columns.
    if cache is not None and cache.continues and bool(mask[:, past:].all()):
        return cache.following(input_ids)
    return Layout.from_mask(mask, T)


AutoConfig.register("lengthwise", LengthwiseConfig)
AutoModelForCausalLM.register(LengthwiseConfig, LengthwiseForCausalLM)
