"""`to_bipe`: a Hugging Face model that is told a token's place inside its segment, its weights kept."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import PreTrainedModel

from ..errors import Error
from .segmented import SEGMENTED, Segmented
from .taken_over import fields_of, take_over


def to_bipe(model: nn.Module, ends: list[int] | int, *, rows: int = 512, between: bool = False) -> PreTrainedModel:
    """The model with a table of `rows` places inside segments, which end at these tokens (`text.segment_ends`).

    The table is zero, so that the model begins exactly as it was and learns the rest. `between`: its rotary positions
    turn by the number of the segment, as in BiPE-RoPE; it then begins as another model, which has to be trained.
    Use what is returned, and no longer what was given; give a `copy.deepcopy` to keep both.
    """
    kind = SEGMENTED.get(type(model))  # pyright: ignore[reportArgumentType]
    if isinstance(model, Segmented):
        raise Error(f"to_bipe: {type(model).__name__} has places inside segments already. Convert the original.")
    if kind is None:
        known = ", ".join(each.__name__ for each in SEGMENTED)
        raise Error(f"to_bipe: the model must be a {known}, got {type(model).__name__}. Unwrap it, or convert first.")
    old: Any = model.config
    _check(old, ends, rows, between)
    config = kind.config_class(**fields_of(old), segment_ends=ends, segment_rows=rows, between_segments=between)
    config._attn_implementation = old._attn_implementation
    words: Any = model.get_input_embeddings()  # pyright: ignore[reportCallIssue]
    table = nn.Embedding(rows, config.hidden_size).to(words.weight)
    nn.init.zeros_(table.weight)
    made = take_over(model, kind, config)
    made.install(table)
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
