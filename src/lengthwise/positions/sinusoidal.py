"""Sinusoidal positions: x_t += [sin(t w_0), …, sin(t w_n), cos(t w_0), …, cos(t w_n)], w_i = base^(-2i/D)."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import Error
from .base import Places, Position


def sinusoid(ids: Tensor, width: int, base: float = 10_000.0) -> Tensor:
    """(…,) ids -> (…, width). Angles are taken in fp64: in fp32, t w is off by 1e-3 from t = 10,000 on."""
    exact = torch.float32 if ids.device.type == "mps" else torch.float64
    i = torch.arange(width // 2, dtype=exact, device=ids.device)
    angle = ids[..., None].to(exact) * base ** (-2 * i / width)
    return torch.cat([angle.sin(), angle.cos()], -1).to(torch.get_default_dtype())


class Sinusoidal(Position):
    at_input = True

    def __init__(self, width: int, heads: int, *, base: float = 10_000.0):
        super().__init__()
        if width % 2:
            raise Error(f"Sinusoidal positions: width must be even (sines and cosines come in pairs), got {width}.")
        self.width, self.base = width, base

    def embed(self, places: Places) -> Tensor:
        return sinusoid(places["token"], self.width, self.base)
