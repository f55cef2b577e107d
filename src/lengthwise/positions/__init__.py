"""Where a token is: one encoding per file, found by name.

>>> import torch
>>> get("learned", width=8, heads=2, rows=16).embed(torch.tensor([[0, 99]])).shape
torch.Size([1, 2, 8])
"""

from __future__ import annotations

from ..errors import Error, UnknownName
from .base import Position
from .layout import Layout
from .learned import Learned
from .none import NoPosition
from .sinusoidal import Sinusoidal
from .transformer_xl import TransformerXL

POSITIONS: dict[str, type[Position]] = {
    "none": NoPosition,
    "learned": Learned,
    "sinusoidal": Sinusoidal,
    "transformer-xl": TransformerXL,
}


def get(name: str, *, width: int, heads: int, **options) -> Position:
    """A fresh encoding for a model of this width and number of heads."""
    if name not in POSITIONS:
        raise UnknownName("position", name, POSITIONS)
    try:
        return POSITIONS[name](width=width, heads=heads, **options)
    except TypeError as error:
        raise Error(f"position {name!r} does not take these options: {error}.") from error


__all__ = ["POSITIONS", "Layout", "Learned", "NoPosition", "Position", "Sinusoidal", "TransformerXL", "get"]
