"""The two models: the shell alone, and the shell with a head over it.

    logits = head(shell(tokens))                                       shell.py

The head is linear, or W2 relu(W1 x + b1) + b2.

Shapes: B batch, T tokens, D model width, S outputs.
"""

from __future__ import annotations

from copy import deepcopy
from math import inf
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, GenerationMixin
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast

from ..errors import Error, ShapeError
from ..mixers import Layout
from ..ops import Piece
from .cache import LengthwiseCache
from .config import LengthwiseConfig
from .depth import Adaptive
from .shell import LengthwisePreTrainedModel


class LengthwiseModel(LengthwisePreTrainedModel):
    """The model without its head, for heads of other kinds: `AutoModel` gives it."""

    _keys_to_ignore_on_load_unexpected = [r"^head\.", r"^hidden\."]  # noqa: RUF012

    def __init__(self, config: LengthwiseConfig):
        super().__init__(config)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        past_key_values: LengthwiseCache | None = None,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
        *,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        cache_position: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> BaseModelOutputWithPast | tuple:
        """As in `LengthwiseForCausalLM`; `last_hidden_state` (B,T,D) is what its head reads."""
        x, _, cache, hidden_states = self._pass(
            False,
            input_ids,
            inputs_embeds,
            attention_mask,
            sequence_ids,
            position_ids,
            past_key_values,
            use_cache,
            cache_position,
            output_hidden_states,
            output_attentions,
        )
        output = BaseModelOutputWithPast(
            last_hidden_state=self.norm(x), past_key_values=cache, hidden_states=hidden_states
        )
        as_dict = self.config.return_dict if return_dict is None else return_dict
        return output if as_dict else output.to_tuple()


class LengthwiseForCausalLM(LengthwisePreTrainedModel, GenerationMixin):
    _tied_weights_keys = {"head.weight": "embedding.weight"}  # noqa: RUF012
    accepts_loss_kwargs = True
    """The Trainer gives `num_items_in_batch`."""

    def __init__(self, config: LengthwiseConfig):
        super().__init__(config)
        self.hidden = nn.Linear(config.width, config.width) if config.head == "two-layer" else None
        self.head = nn.Linear(config.width, config.outputs, bias=config.head_bias)
        self.post_init()
        if self.generation_config is not None:
            self.generation_config.use_cache = self.uncached is None

    def get_output_embeddings(self) -> nn.Linear | None:
        """The head, where it answers in words: a head of `num_outputs` stays as wide when the vocabulary grows."""
        words = self.config.num_outputs is None or self.config.tie_word_embeddings
        return self.head if words else None

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.head = new_embeddings
        if self.config.num_outputs is not None:
            self.config.num_outputs = new_embeddings.out_features

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        past_key_values: LengthwiseCache | None = None,
        labels: Tensor | None = None,
        logits_to_keep: int | Tensor | None = 0,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
        *,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        cache_position: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> CausalLMOutputWithPast | tuple:
        """`attention_mask` (B,T): 1 on real tokens, padding left or right; every row gets its unpadded logits.

        `past_key_values`: the tokens follow those it holds, and are added to it. `attention_mask` then covers both, or
        is left out where all new tokens are real, which spares a look at it.
        `use_cache`: begin one, and return it. Without either nothing is kept.
        `sequence_ids` (B,T): numbers that change where a packed row's next sequence begins.
        `position_ids` (B,T): checked, for the layout says them; where they begin again at 0, they pack sequences.
        `inputs_embeds` (B,T,D): in the place of `input_ids`, what the embedding would give, before its scale.
        `labels` (B,T): shifted here, as everywhere in transformers; -100 is not scored.
        `num_items_in_batch`: what the loss's sum is divided by, instead of the number of labels scored here.
        `logits_to_keep`: 1 gives each row's last real token, by the shorter way where the depth policy has one; another
        number the last columns; a tensor those columns; 0 or None all.
        `output_hidden_states`: also what is embedded, and what every pass through a layer made of all tokens.
        `cache_position` is checked, and `output_attentions` refused.
        """
        keep = 0 if logits_to_keep is None else logits_to_keep
        if labels is not None and not (isinstance(keep, int) and keep == 0):
            raise Error("labels need the logits of every position: leave logits_to_keep at 0.")
        if self.ranks is not None and not (isinstance(keep, int) and keep in (0, 1)):
            raise Error(f"logits_to_keep is 0 or 1 where a sequence is divided among ranks, got {keep}.")
        last = isinstance(keep, int) and keep == 1
        x, layout, cache, hidden_states = self._pass(
            last,
            input_ids,
            inputs_embeds,
            attention_mask,
            sequence_ids,
            position_ids,
            past_key_values,
            use_cache,
            cache_position,
            output_hidden_states,
            output_attentions,
        )
        if not last:
            x = x[..., -keep:, :] if isinstance(keep, int) else x[..., keep, :]
        x = self.norm(x)
        logits = self.head(x if self.hidden is None else F.relu(self.hidden(x)))
        if last and self.ranks is not None:
            logits = self.ranks.same(logits)
        loss = None if labels is None else self._loss(logits, labels, layout, num_items_in_batch)
        output = CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache, hidden_states=hidden_states)
        as_dict = self.config.return_dict if return_dict is None else return_dict
        return output if as_dict else output.to_tuple()

    def snap(self, centres: Tensor, radius: float) -> LengthwiseForCausalLM:
        """This model with every node replaced by the nearest of the centres (N,D): saved, loaded and run as any other.

        For a RegularGPT of one layer a group. `radius`: a node farther from every centre than this is an error.
        `verify.extract(model).snap()` finds the centres.
        """
        if not isinstance(self.depth, Adaptive) or not self.depth.shortens or len(self.depth.layers) > 1:
            raise Error("snap: only the nodes of a RegularGPT of one layer a group (thickness=1) can be snapped.")
        width = self.config.width
        if centres.dim() != 2 or centres.shape[1] != width or not len(centres):
            raise Error(f"snap: centres must be (N,D) with D = {width}, the model's width, got {list(centres.shape)}.")
        if not centres.isfinite().all() or not 0 <= radius < inf:
            raise Error(f"snap: centres and radius must be finite, and the radius at least 0, got radius {radius}.")
        config: Any = deepcopy(self.config)
        config.depth = {**(config.depth or {}), "snapped": {"centres": len(centres), "radius": float(radius)}}
        with torch.device("meta"):  # so that no weight is drawn first
            model = type(self)(config)
        weights = {name: weight.detach().clone() for name, weight in self.state_dict().items()}
        first = next(self.parameters())
        weights["depth.layers.0.centres"] = centres.detach().to(first, copy=True)
        model.load_state_dict(weights, assign=True)
        model.tie_weights()
        return model.eval()

    def _loss(self, logits: Tensor, labels: Tensor, layout: Layout, items: Tensor | int | None) -> Tensor:
        if layout.piece is not None:
            return loss_over_ranks(logits, labels, layout.piece, items)
        targets = labels[:, 1:]
        if layout.sequences is not None:
            # The first token of a packed sequence does not follow from the one before it.
            targets = targets.masked_fill(layout.sequences[:, 1:] != layout.sequences[:, :-1], -100)
        scored, targets = logits[:, :-1].flatten(0, 1).float(), targets.flatten()
        if items is None:
            return F.cross_entropy(scored, targets, ignore_index=-100)
        loss = F.cross_entropy(scored, targets, ignore_index=-100, reduction="sum")
        return loss / (items.to(loss.device) if isinstance(items, Tensor) else items)

    def _prepare_cache_for_generation(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, generation_config: Any, model_kwargs: dict[str, Any], *unused: Any
    ) -> None:
        if generation_config.use_cache is False or model_kwargs.get("past_key_values") is not None:
            return
        if self.uncached:
            raise Error(self.uncached)
        model_kwargs["past_key_values"] = LengthwiseCache()

    def _prepare_position_ids_for_generation(self, inputs_tensor: Tensor, model_kwargs: dict[str, Any]) -> None:
        """Returns None: the layout says them."""

    def prepare_inputs_for_generation(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: LengthwiseCache | None = None,
        next_sequence_length: int | None = None,
        logits_to_keep: int | None = None,
        is_first_iteration: bool | None = False,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        **unused: Any,
    ) -> dict[str, Any]:
        """The tokens which the cache does not hold yet; without one, all of them. `unused`: what other models ask."""
        new = None if past_key_values is None else next_sequence_length
        if past_key_values is not None:
            if new is None and attention_mask is not None:
                new = attention_mask.shape[1] - past_key_values.get_seq_length()
            input_ids = input_ids if new is None else input_ids[:, -new:]
            if past_key_values.length and not is_first_iteration:
                attention_mask = None  # what generate() has appended is real, and the cache knows the prompt's padding
        inputs: dict[str, Any] = {"input_ids": input_ids}
        if inputs_embeds is not None and is_first_iteration:
            inputs = {"inputs_embeds": inputs_embeds if new is None else inputs_embeds[:, -new:]}
        if output_hidden_states or output_attentions:
            inputs |= {"output_hidden_states": output_hidden_states, "output_attentions": output_attentions}
        return {
            **inputs,
            "attention_mask": attention_mask,
            "past_key_values": past_key_values,
            "logits_to_keep": 1 if logits_to_keep is None else logits_to_keep,
        }


def loss_over_ranks(logits: Tensor, labels: Tensor, piece: Piece, items: Tensor | int | None) -> Tensor:
    """Σ_r (the losses at the tokens of rank r) / (all scored tokens), of logits (B,T,S) and this rank's labels (B,T).

    Labels are shifted here: the last token is scored by the next rank's first. Every rank has this one number, and its
    backward pass gives each weight the part that comes from the rank's own tokens.
    """
    ranks, (B, T) = piece.ranks, logits.shape[:2]
    if labels.shape != (B, T):
        raise ShapeError(f"labels must be (B,T) = {[B, T]}, this rank's piece of them, got {list(labels.shape)}.")
    firsts = ranks.gather(labels[:, 0] if T else labels.new_full((B,), -100))
    following = next((r for r in range(ranks.rank + 1, ranks.size) if piece.lengths[r]), None)
    after = labels.new_full((B,), -100) if following is None else firsts[following]
    targets = torch.cat([labels[:, 1:], after[:, None]], 1).flatten() if T else labels.flatten()
    loss = F.cross_entropy(logits.flatten(0, 1).float(), targets, ignore_index=-100, reduction="sum")
    if items is None:
        items = ranks.add((targets != -100).sum())
    return ranks.total(loss) / (items.to(loss.device) if isinstance(items, Tensor) else items)


AutoConfig.register("lengthwise", LengthwiseConfig)
AutoModel.register(LengthwiseConfig, LengthwiseModel)
AutoModelForCausalLM.register(LengthwiseConfig, LengthwiseForCausalLM)
