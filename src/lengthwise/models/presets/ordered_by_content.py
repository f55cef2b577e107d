"""Presets whose attention knows the order of tokens by what they say, without an encoding: LLaMA's layers around each.

>>> stick_breaking(vocab_size=100).mixer["name"]
'stick-breaking'
"""

from __future__ import annotations

from typing import Annotated, Any

from ...options import at_least
from ..config import LengthwiseConfig
from .attention import PositionName, transformer
from .shared_options import Dropout, Expansion, Heads, InitializerRange, Layers, MaxLength, Tied, Width

Position = Annotated[
    PositionName, "What is added to the embeddings besides; encodings that act on attention are refused."
]


def stick_breaking(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    width: Width = 64,
    heads: Heads = 8,
    layers: Layers = 5,
    current: Annotated[bool, "Whether a token takes of its own stick, before those that precede it."] = False,
    remainder: Annotated[bool, "Whether what no key has taken goes to the token's own value."] = True,
    position: Position = "none",
    max_length: MaxLength = 512,
    expansion: Expansion = 4,
    dropout: Dropout = 0.0,
    initializer_range: InitializerRange = None,
    tie_word_embeddings: Tied = False,
) -> LengthwiseConfig:
    """Stick-breaking attention: near keys take their share of the attention before far ones."""
    common = (width, heads, layers, position, max_length, expansion, dropout, initializer_range, tie_word_embeddings)
    return _llama(
        vocab_size, num_outputs, *common, mixer={"name": "stick-breaking", "current": current, "remainder": remainder}
    )


def path(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    width: Width = 64,
    heads: Heads = 8,
    layers: Layers = 5,
    forgetting: Annotated[
        bool, "Whether gates forget what lies before a token besides, as FoX's do (PaTH-FoX)."
    ] = False,
    position: Position = "none",
    max_length: MaxLength = 512,
    expansion: Expansion = 4,
    dropout: Dropout = 0.0,
    initializer_range: InitializerRange = None,
    tie_word_embeddings: Tied = False,
) -> LengthwiseConfig:
    """PaTH: every token between a key and a query reflects the key, by a direction of its own."""
    common = (width, heads, layers, position, max_length, expansion, dropout, initializer_range, tie_word_embeddings)
    return _llama(vocab_size, num_outputs, *common, mixer={"name": "path", "forgetting": forgetting})


def cope(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    width: Width = 64,
    heads: Heads = 8,
    layers: Layers = 5,
    rows: Annotated[int, at_least(1), "How many counts have a vector of their own; all beyond share the last."] = 64,
    position: Position = "none",
    max_length: MaxLength = 512,
    expansion: Expansion = 4,
    dropout: Dropout = 0.0,
    initializer_range: InitializerRange = None,
    tie_word_embeddings: Tied = False,
) -> LengthwiseConfig:
    """CoPE: gates decide which of the tokens between a query and a key are counted."""
    common = (width, heads, layers, position, max_length, expansion, dropout, initializer_range, tie_word_embeddings)
    return _llama(vocab_size, num_outputs, *common, mixer={"name": "cope", "rows": rows})


def _llama(
    vocab_size: int,
    num_outputs: int | None,
    width: int,
    heads: int,
    layers: int,
    position: str,
    max_length: int,
    expansion: int,
    dropout: float,
    initializer_range: float | None,
    tie_word_embeddings: bool,
    mixer: dict[str, Any],
) -> LengthwiseConfig:
    config = transformer(
        vocab_size,
        num_outputs,
        width=width,
        heads=heads,
        layers=layers,
        position=position,
        max_length=max_length,
        block="llama",
        expansion=expansion,
        dropout=dropout,
        initializer_range=initializer_range,
        tie_word_embeddings=tie_word_embeddings,
    )
    config.mixer = {**mixer, "heads": heads, "biases": False}
    return config
