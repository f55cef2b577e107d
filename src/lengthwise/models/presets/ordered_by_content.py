"""Presets whose attention knows the order of tokens by what they say, without an encoding: LLaMA's layers around each.

>>> stick_breaking(vocab_size=100).mixer["name"]
'stick-breaking'
"""

from __future__ import annotations

from typing import Annotated, Any

from ...options import OptionsOf, at_least
from ..config import LengthwiseConfig
from .attention import SIZES, PositionName, transformer


def _llama(
    vocab_size: int,
    num_outputs: int | None,
    mixer: dict[str, Any],
    *,
    position: Annotated[
        PositionName, "What is added to the embeddings besides; encodings that act on attention are refused."
    ] = "none",
    **shared: Annotated[Any, OptionsOf(transformer, f"{SIZES} layers max_length initializer_range")],
) -> LengthwiseConfig:
    config = transformer(vocab_size, num_outputs, position=position, block="llama", **shared)
    config.mixer = {**mixer, "heads": config.heads, "biases": False}
    return config


Shared = Annotated[Any, OptionsOf(_llama)]


def stick_breaking(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    current: Annotated[bool, "Whether a token takes of its own stick, before those that precede it."] = False,
    remainder: Annotated[bool, "Whether what no key has taken goes to the token's own value."] = True,
    **shared: Shared,
) -> LengthwiseConfig:
    """Stick-breaking attention: near keys take their share of the attention before far ones."""
    mixer = {"name": "stick-breaking", "current": current, "remainder": remainder}
    return _llama(vocab_size, num_outputs, mixer, **shared)


def path(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    forgetting: Annotated[
        bool, "Whether gates forget what lies before a token besides, as FoX's do (PaTH-FoX)."
    ] = False,
    **shared: Shared,
) -> LengthwiseConfig:
    """PaTH: every token between a key and a query reflects the key, by a direction of its own."""
    return _llama(vocab_size, num_outputs, {"name": "path", "forgetting": forgetting}, **shared)


def cope(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    rows: Annotated[int, at_least(1), "How many counts have a vector of their own; all beyond share the last."] = 64,
    **shared: Shared,
) -> LengthwiseConfig:
    """CoPE: gates decide which of the tokens between a query and a key are counted."""
    return _llama(vocab_size, num_outputs, {"name": "cope", "rows": rows}, **shared)
