"""BiPE (He et al. 2024): a Transformer that knows a token's place in its segment, and the segment's place in the text.

>>> bipe(vocab_size=100, ends=[13, 198]).position["between"]
{'name': 'rope'}
"""

from __future__ import annotations

from typing import Annotated, Literal

from ..config import LengthwiseConfig
from .attention import transformer
from .shared_options import Dropout, Expansion, Heads, InitializerRange, Layers, LogScale, MaxLength, Tied, Width


def bipe(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    ends: Annotated[
        int | list[int],
        "The ids of the tokens that end a segment; a single number is how many tokens a segment has.",
    ] = 16,
    position: Annotated[Literal["rope", "alibi"], "What the places of the segments act by."] = "rope",
    variant: Annotated[
        Literal["paper", "official"], "Whose block: a plain Transformer's (the paper), or LLaMA's (the released code)."
    ] = "paper",
    width: Width = 64,
    heads: Heads = 8,
    layers: Layers = 5,
    max_length: MaxLength = 512,
    log_scale: LogScale = None,
    expansion: Expansion = 4,
    dropout: Dropout = 0.0,
    initializer_range: InitializerRange = None,
    tie_word_embeddings: Tied = False,
) -> LengthwiseConfig:
    """BiPE: learned positions inside a segment, such as a sentence, and RoPE or ALiBi on the number of the segment.

    The separator is the last token of its segment. Both numbers begin at 0; inside a segment they end at `max_length`.
    """
    between = {"name": "rope"} if position == "rope" else {"name": "alibi", "steepness": 96.0}
    return transformer(
        vocab_size,
        num_outputs,
        width=width,
        heads=heads,
        layers=layers,
        position="bilevel",
        position_options={"inside": {"name": "learned", "rows": max_length}, "between": between, "ends": ends},
        log_scale=log_scale,
        block="llama" if variant == "official" else "gpt2",
        expansion=expansion,
        dropout=dropout,
        initializer_range=initializer_range,
        tie_word_embeddings=tie_word_embeddings,
    )
