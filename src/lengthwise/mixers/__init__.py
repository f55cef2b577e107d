"""How tokens exchange information: one mixer per file, found by name.

>>> import torch
>>> from lengthwise.mixers import Layout
>>> x = torch.randn(2, 5, 16)
>>> y, state = get("softmax", width=16, heads=4)(x, layout=Layout.of(x))
>>> y.shape
torch.Size([2, 5, 16])
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..errors import UnknownName
from ..options import Schema, schema, take
from ..positions import Layout, Position
from .attention import KeyValues, merge_heads, split_heads
from .base import FIRST, Level, Mixer, Traits
from .block_lrnn import BlockLRNN, BlockState
from .chain import Chain
from .cope import CoPE
from .delta_product import DeltaProduct, DeltaState
from .forgetting import Forgetting
from .path import PaTH, PathState
from .pd_ssm import PDSSM
from .recurrent import Recurrent, RecurrentState
from .sliding_dilated import SlidingDilated
from .softmax import Softmax
from .state_space import LRU, S4, S4D, Diagonal, LiquidS4, SpaceState
from .stick_breaking import StickBreaking

MIXERS: dict[str, Callable[..., Mixer]] = {
    "softmax": Softmax,
    "forgetting": Forgetting,
    "chain": Chain,
    "stick-breaking": StickBreaking,
    "path": PaTH,
    "cope": CoPE,
    "sliding-dilated": SlidingDilated,
    "block-lrnn": BlockLRNN,
    "s4": S4,
    "s4d": S4D,
    "liquid-s4": LiquidS4,
    "lru": LRU,
    "diagonal-lrnn": Diagonal,
    "pd-ssm": PDSSM,
    "delta-product": DeltaProduct,
    "rnn": partial(Recurrent, cell="rnn"),
    "lstm": partial(Recurrent, cell="lstm"),
    "gru": partial(Recurrent, cell="gru"),
}

FILLED_IN = ("width",)
"""What the model knows, and no option says."""


def options(name: str) -> Schema:
    """The options a mixer takes, by name."""
    if name not in MIXERS:
        raise UnknownName("mixer", name, MIXERS)
    return schema(MIXERS[name], without=FILLED_IN)


def get(name: str, *, width: int, position: Position | None = None, **options) -> Mixer:
    """A fresh mixer of this width; `position`: an encoding of its own, for one that compares queries with keys."""
    if name not in MIXERS:
        raise UnknownName("mixer", name, MIXERS)
    if position is not None:
        options["position"] = position
    values = take(schema(MIXERS[name], without=FILLED_IN), options, f"mixer {name!r}")
    return MIXERS[name](width, **values)


__all__ = [
    "FIRST",
    "LRU",
    "MIXERS",
    "PDSSM",
    "S4",
    "S4D",
    "BlockLRNN",
    "BlockState",
    "Chain",
    "CoPE",
    "DeltaProduct",
    "DeltaState",
    "Diagonal",
    "Forgetting",
    "KeyValues",
    "Layout",
    "Level",
    "LiquidS4",
    "Mixer",
    "PaTH",
    "PathState",
    "Recurrent",
    "RecurrentState",
    "SlidingDilated",
    "Softmax",
    "SpaceState",
    "StickBreaking",
    "Traits",
    "get",
    "merge_heads",
    "options",
    "split_heads",
]


def __dir__() -> list[str]:
    return sorted(__all__)
