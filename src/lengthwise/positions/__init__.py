"""Where a token is, and what that does to attention: every encoding by name.

>>> import torch
>>> get("learned", width=8, heads=2, rows=16).embed(Places(torch.tensor([[0, 99]]))).shape
torch.Size([1, 2, 8])
"""

from __future__ import annotations

from ..errors import Error, UnknownName
from ..options import Schema, schema, take
from .absolute import Learned, NoPosition, Sinusoidal
from .base import Placed, Places, Position
from .distance_biases import T5, Alibi, HardAlibi, KerpleLog, KerplePower
from .layout import Layout
from .multilevel import Bilevel, Coupled, Multilevel, begins_segment
from .pope import Pope
from .randomized import Randomized
from .rope import Accumulated, Rope, Xpos
from .scale_invariant import ScaleInvariant
from .score import Bias, DenseBias, DistanceBias, KeyBias, Score, added
from .transformer_xl import TransformerXL

POSITIONS: dict[str, type[Position]] = {
    "none": NoPosition,
    "learned": Learned,
    "sinusoidal": Sinusoidal,
    "transformer-xl": TransformerXL,
    "rope": Rope,
    "xpos": Xpos,
    "accumulated": Accumulated,
    "pope": Pope,
    "scale-invariant": ScaleInvariant,
    "alibi": Alibi,
    "hard-alibi": HardAlibi,
    "t5": T5,
    "kerple-log": KerpleLog,
    "kerple-power": KerplePower,
    "bilevel": Bilevel,
    "multilevel": Multilevel,
    "coupled": Coupled,
    "randomized": Randomized,
}


FILLED_IN = ("width", "heads")
"""What the model knows, and no option says."""


def options(name: str) -> Schema:
    """The options a position takes, by name."""
    if name not in POSITIONS:
        raise UnknownName("position", name, POSITIONS)
    return schema(POSITIONS[name], without=FILLED_IN)


def get(name: str, *, width: int, heads: int, **options) -> Position:
    """A fresh encoding for a model of this width and number of heads."""
    if name not in POSITIONS:
        raise UnknownName("position", name, POSITIONS)
    settings = take(schema(POSITIONS[name], without=FILLED_IN), options, f"position {name!r}")
    return POSITIONS[name](width=width, heads=heads, **settings)


def numbered(spec: dict, what: str, *, width: int, heads: int) -> Position:
    """The encoding of a `spec` with a name and settings, to stand at numbers which another encoding finds.

    `what` it is to that one, for errors: "Multilevel positions: a level".
    """
    if "name" not in spec:
        raise Error(f'{what} is a dict with a "name", such as {{"name": "rope"}}, got {spec}.')
    made = get(spec["name"], width=width, heads=heads, **{key: value for key, value in spec.items() if key != "name"})
    if made.in_each_layer or type(made).place is not Position.place:
        raise Error(
            f"{what} cannot be {spec['name']!r}, whose weights or ids are its own. Take an encoding that places tokens "
            "by number and that all layers share, such as learned, rope or alibi."
        )
    return made


__all__ = [
    "POSITIONS",
    "T5",
    "Accumulated",
    "Alibi",
    "Bias",
    "Bilevel",
    "Coupled",
    "DenseBias",
    "DistanceBias",
    "HardAlibi",
    "KerpleLog",
    "KerplePower",
    "KeyBias",
    "Layout",
    "Learned",
    "Multilevel",
    "NoPosition",
    "Placed",
    "Places",
    "Position",
    "Randomized",
    "Rope",
    "ScaleInvariant",
    "Score",
    "Sinusoidal",
    "TransformerXL",
    "Xpos",
    "added",
    "begins_segment",
    "get",
    "numbered",
    "options",
]


def __dir__() -> list[str]:
    return sorted(__all__)
