"""Absolute positions: what stands at t is added to the embedding, x_t += E[t], or nothing is.

none           0: a causal model can still tell positions apart by how many tokens it sees
learned        E[min(t, N-1)], one table of N rows, its last row standing for all beyond
sinusoidal     [sin(t w_0), …, sin(t w_n), cos(t w_0), …, cos(t w_n)], w_i = base^(-2i/D)
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from ..errors import Error
from .base import Places, Position


class NoPosition(Position):
    """`positions.get("none", width=…, heads=…)`: it does nothing anywhere."""

    def __init__(self, width: int, heads: int):
        super().__init__()


class Learned(Position):
    at_input = True

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        rows: Annotated[int, "How many positions have a vector of their own; all beyond share the last."],
    ):
        super().__init__()
        if rows < 1:
            raise Error(f"Learned positions: rows must be at least 1, got {rows}.")
        self.table = nn.Embedding(rows, width)
        self.longest = rows

    def embed(self, places: Places) -> Tensor:
        return self.table(places["token"].clamp(0, self.table.num_embeddings - 1))


INEXACT = {"mps": torch.float32}
"""The devices that have no fp64, and what they have."""


def sinusoid(ids: Tensor, width: int, base: float = 10_000.0) -> Tensor:
    """(…,) ids -> (…, width). Angles are taken in fp64: in fp32, t w is off by 1e-3 from t = 10,000 on."""
    exact = INEXACT.get(ids.device.type, torch.float64)
    i = torch.arange(width // 2, dtype=exact, device=ids.device)
    angle = ids[..., None].to(exact) * base ** (-2 * i / width)
    return torch.cat([angle.sin(), angle.cos()], -1).to(torch.get_default_dtype())


class Sinusoidal(Position):
    at_input = takes_fractions = True

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        base: Annotated[float, "The slowest angle turns once in about 2π times this many tokens."] = 10_000.0,
    ):
        super().__init__()
        if width % 2:
            raise Error(f"Sinusoidal positions: width must be even (sines and cosines come in pairs), got {width}.")
        self.width, self.base = width, base

    def embed(self, places: Places) -> Tensor:
        return sinusoid(places["token"], self.width, self.base)
