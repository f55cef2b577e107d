"""FoX (Lin et al. 2025), a Transformer that forgets as much as its tokens say, and BiPE-FoX, which forgets segment by
segment.

>>> fox(vocab_size=100).position, fox(vocab_size=100).mixer["name"]
({'name': 'none'}, 'forgetting')
>>> fox(vocab_size=100, ends=[13, 198]).mixer["by_segment"]
True
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ...options import OptionsOf
from ..config import LengthwiseConfig
from .attention import SIZES, PositionName, PositionOptions, encoding, transformer
from .shared_options import MaxLength

NARROWER = 7 / 8
"""What the feed-forward networks of the Pro block are wide, of what they are otherwise."""


def fox(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    ends: Annotated[
        int | list[int] | None,
        "The ids of the tokens that end a segment, or how many tokens a segment has: gates then close only between "
        "segments (BiPE-FoX); None: they close at every token.",
    ] = None,
    gate_bias: Annotated[
        float, "Gates are at first the sigmoid of this: 0 halves the weight of all before, 5 leaves 99%."
    ] = 0.0,
    position: Annotated[
        PositionName, "A position encoding beside the gates; with ends, that of the segments' numbers."
    ] = "none",
    position_options: PositionOptions = None,
    max_length: MaxLength = 512,
    block: Annotated[
        Literal["llama", "gpt2", "pro"],
        "Whose layers: LLaMA's, GPT-2's, or the paper's Pro block, LLaMA's with shifted keys and values, norms in each "
        "head and an output gate.",
    ] = "llama",
    **shared: Annotated[Any, OptionsOf(transformer, f"{SIZES} layers log_scale initializer_range")],
) -> LengthwiseConfig:
    """FoX: attention with forgetting gates and no positions, in LLaMA's block.

    With `ends` it is BiPE-FoX: a token's place inside its segment is learned and added to the embedding, as in BiPE,
    and a gate at the first token of each segment says how much of all before is forgotten.

    The networks of the Pro block are 7/8 as wide as `expansion` says, 3.5 in the place of 4 as in the paper.
    """
    config = transformer(vocab_size, num_outputs, block="llama" if block == "pro" else block, **shared)
    assert isinstance(config.mixer, dict)
    assert isinstance(config.block, dict)
    config.position = encoding(position, position_options, max_length, ends)
    config.mixer = {**config.mixer, "name": "forgetting", "gate_bias": gate_bias, "by_segment": ends is not None}
    if block == "pro":
        config.mixer["pro"] = True
        config.block["expansion"] = max(1.0, config.block["expansion"] * NARROWER)
    return config
