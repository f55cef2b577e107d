"""GPT-2, Llama and Mistral that know a token's place inside its segment, as classes of their own: BiPE's first level.

    x_t = E[token_t] + S[min(inside_t, rows - 1)]        inside_t: how many tokens since the last end of a segment

S is zero at first, so that a converted model begins exactly as it was: its own positions stay on the tokens' places.
With `between_segments` its rotary positions turn by the number of the segment instead (BiPE-RoPE), and it begins as
another model, which has to be trained.

The places of cached tokens are kept in one more layer of the model's cache, where reordering and cropping reach them.

Shapes: B batch, T new tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from ..errors import Error
from .families import fields_of, take_over, variant_of, variants


@dataclass(init=False, repr=False, eq=False)
class SegmentFields:
    """What the config of a segmented model says besides."""

    segment_ends: list[int] | int = 16
    """The tokens that end a segment, or how many tokens a segment has."""
    segment_rows: int = 512
    """How many places inside a segment have a vector of their own; all beyond share the last."""
    between_segments: bool = False
    """Whether rotary positions turn by the number of the segment."""


class Ids(NamedTuple):
    """Where tokens are, each (B,T): in their segments, and these in the text."""

    inside: Tensor
    between: Tensor


def segment_ids(ended: Tensor, real: Tensor, before: Ids | None) -> tuple[Ids, Ids]:
    """The ids of the new tokens, and those that a token after each of them has.

    `ended`, `real` (B,T): which tokens end a segment and are no padding; `before` (B,1): what follows the cached ones.

    >>> ids, _ = segment_ids(torch.tensor([[False, True, False, False]]), torch.ones(1, 4, dtype=torch.bool), None)
    >>> ids.inside.tolist(), ids.between.tolist()
    ([[0, 1, 0, 1]], [[0, 0, 1, 1]])
    """
    zero = torch.zeros_like(ended[:, :1], dtype=torch.long)
    inside, between = before or (zero, zero)
    ended = ended & real
    tokens = real.long().cumsum(1) - real.long()
    segments = ended.long().cumsum(1) - ended.long()
    # How many real tokens there were up to the last end before each token; none ended here: what was there before.
    at_end = torch.where(ended, tokens + 1, 0).cummax(1).values
    last_end = torch.cat([zero, at_end[:, :-1]], 1)
    ids = Ids(torch.where(segments > 0, tokens - last_end, tokens + inside), segments + between)
    return ids, Ids(torch.where(ended, 0, ids.inside + real.long()), ids.between + ended.long())


class Segmented:
    """Mixed in before a model's own class: the table of places, in its base."""

    def __init__(self, config: Any):
        super().__init__(config)  # pyright: ignore[reportCallIssue]
        self.install()

    def install(self) -> None:
        base, config = self.base_model, self.config  # pyright: ignore[reportAttributeAccessIssue]
        table = nn.Embedding(config.segment_rows, config.hidden_size).to(base.get_input_embeddings().weight)
        nn.init.zeros_(table.weight)
        if not hasattr(base, "segment_table"):
            base.register_forward_pre_hook(_place, with_kwargs=True)
        base.segment_table = table


def _place(base: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[()], dict[str, Any]]:
    """Embed the tokens with their places, and give these to the model in the place of its own, if it is asked to."""
    config = base.config
    tokens = args[0] if args else kwargs.get("input_ids")
    if len(args) > 1 or tokens is None or kwargs.get("inputs_embeds") is not None:
        raise Error(f"{type(base).__name__}: where a segment ends is told by its tokens: give input_ids, by name.")
    cache, mask = kwargs.get("past_key_values"), kwargs.get("attention_mask")
    T, past = tokens.shape[1], 0 if cache is None else cache.get_seq_length()
    if mask is not None and mask.dim() != 2:
        raise Error(
            f"attention_mask must be (B,S), 1 on real tokens, got {list(mask.shape)}. Leave it out, or reduce it."
        )
    real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask[:, -T:].bool()
    wanted = config.use_cache if kwargs.get("use_cache") is None else kwargs["use_cache"]
    if cache is None and wanted and not (base.training and base.gradient_checkpointing):
        cache = kwargs["past_key_values"] = DynamicCache(config=config)
    before = _recall(cache, config.num_hidden_layers) if past else None
    if isinstance(config.segment_ends, int):
        earlier = 0 if before is None else before.inside + before.between * config.segment_ends
        ended = (earlier + real.long().cumsum(1)) % config.segment_ends == 0
    else:
        ended = torch.isin(tokens, torch.tensor(config.segment_ends, device=tokens.device))
    ids, after = segment_ids(ended, real, before)
    if cache is not None:
        _keep(cache, config.num_hidden_layers, after)
    rows = base.segment_table(ids.inside.clamp(0, config.segment_rows - 1))
    kwargs["inputs_embeds"] = base.get_input_embeddings()(tokens) + rows
    kwargs["input_ids"] = None
    if config.between_segments:
        kwargs["position_ids"] = ids.between
        # Without a mask transformers would take equal places for the beginnings of packed texts.
        kwargs["attention_mask"] = mask if mask is not None else tokens.new_ones(len(tokens), past + T)
    return (), kwargs


def _keep(cache: Any, layer: int, after: Ids) -> None:
    if not isinstance(cache, DynamicCache) or cache.offloading:
        raise Error(
            f"past_key_values must be a plain DynamicCache, in which places can be kept, got {type(cache).__name__}. "
            "Leave it out, and cache_implementation too."
        )
    while len(cache.layers) <= layer:
        cache.layers.append(DynamicLayer())
    ids = torch.stack(after, -1)[:, None]
    cache.layers[layer].update(ids, ids[..., :0])  # pyright: ignore[reportAttributeAccessIssue]


def _recall(cache: Any, layer: int) -> Ids:
    """What a token after the cached ones has."""
    if len(cache.layers) <= layer:
        raise Error("past_key_values: it was filled by another model, which keeps no places of segments.")
    return Ids(*cache.layers[layer].keys[:, 0, -1:].unbind(-1))


SEGMENTED = variants("Segmented", Segmented, SegmentFields)


def to_bipe(model: nn.Module, ends: list[int] | int, *, rows: int = 512, between: bool = False) -> PreTrainedModel:
    """The model with a table of `rows` places inside segments, which end at these tokens (`text.segment_ends`).

    The table is zero, so that the model begins exactly as it was and learns the rest. `between`: its rotary positions
    turn by the number of the segment, as in BiPE-RoPE; it then begins as another model, which has to be trained.
    Use what is returned, and no longer what was given; give a `copy.deepcopy` to keep both.
    """
    kind = variant_of(model, SEGMENTED, "to_bipe", "places inside segments")
    old: Any = model.config
    _check(old, ends, rows, between)
    config = kind.config_class(**fields_of(old), segment_ends=ends, segment_rows=rows, between_segments=between)
    made = take_over(model, kind, config)
    made.install()
    return made.train(model.training)


def _check(config: Any, ends: Any, rows: Any, between: bool) -> None:
    listed = isinstance(ends, list) and ends and all(type(token) is int and token >= 0 for token in ends)
    if not listed and not (type(ends) is int and ends > 0):
        raise Error(
            "to_bipe: ends must be a list of token ids with at least one, or the number of tokens in a segment, got "
            f"{ends!r}. text.segment_ends(tokenizer) gives those of sentences."
        )
    if type(rows) is not int or rows < 1:
        raise Error(f"to_bipe: rows must be at least 1, got {rows!r}.")
    if between and getattr(config, "rope_parameters", None) is None:
        raise Error(
            "to_bipe: between turns rotary positions by the number of the segment, and this model has none. Leave it "
            "out."
        )
