"""Models by the name their papers gave them: each preset is a function returning a `LengthwiseConfig`.

>>> regular_gpt(vocab_size=2, width=32, heads=4).depth["chunk"]
2
"""

from __future__ import annotations

from typing import Any

from .attention import chacal, regular_gpt, transformer, transformer_xl
from .bipe import bipe
from .fox import fox
from .hybrid import hybrid
from .ordered_by_content import cope, path, stick_breaking
from .recurrences import block_lrnn, delta_product, diagonal_lrnn, gru, liquid_s4, lru, lstm, pd_ssm, rnn, s4, s4d

PRESETS: dict[str, Any] = {
    "regular-gpt": regular_gpt,
    "transformer": transformer,
    "transformer-xl": transformer_xl,
    "chacal": chacal,
    "bipe": bipe,
    "fox": fox,
    "stick-breaking": stick_breaking,
    "path": path,
    "cope": cope,
    "hybrid": hybrid,
    "block-lrnn": block_lrnn,
    "s4": s4,
    "s4d": s4d,
    "liquid-s4": liquid_s4,
    "lru": lru,
    "diagonal-lrnn": diagonal_lrnn,
    "pd-ssm": pd_ssm,
    "delta-product": delta_product,
    "rnn": rnn,
    "lstm": lstm,
    "gru": gru,
}

__all__ = [
    "PRESETS",
    "bipe",
    "block_lrnn",
    "chacal",
    "cope",
    "delta_product",
    "diagonal_lrnn",
    "fox",
    "gru",
    "hybrid",
    "liquid_s4",
    "lru",
    "lstm",
    "path",
    "pd_ssm",
    "regular_gpt",
    "rnn",
    "s4",
    "s4d",
    "stick_breaking",
    "transformer",
    "transformer_xl",
]
