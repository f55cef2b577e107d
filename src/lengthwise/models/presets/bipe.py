"""BiPE (He et al. 2024): a Transformer that knows a token's place in its segment, and the segment's place in the text.

>>> bipe(vocab_size=100, ends=[13, 198]).position["between"]
{'name': 'rope'}
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ...options import OptionsOf
from ..config import LengthwiseConfig
from .attention import SIZES, transformer
from .shared_options import MaxLength


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
    max_length: MaxLength = 512,
    **shared: Annotated[Any, OptionsOf(transformer, f"{SIZES} layers log_scale initializer_range")],
) -> LengthwiseConfig:
    """BiPE: learned positions inside a segment, such as a sentence, and RoPE or ALiBi on the number of the segment.

    The separator is the last token of its segment. Both numbers begin at 0; inside a segment they end at `max_length`.
    """
    between = {"name": "rope"} if position == "rope" else {"name": "alibi", "steepness": 96.0}
    return transformer(
        vocab_size,
        num_outputs,
        position="bilevel",
        position_options={"inside": {"name": "learned", "rows": max_length}, "between": between, "ends": ends},
        block="llama" if variant == "official" else "gpt2",
        **shared,
    )
