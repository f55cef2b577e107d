"""An input-dependent diagonal linear RNN: the block-diagonal one with blocks of one entry, real or complex.

    x_t = a(u_t) ∘ x_{t-1} + v(u_t),    y_t = C x_t + D ∘ u_t,    a(u) = z / max(1, |z|)  with  z = W u + w

So |a| <= 1, and no product of transitions grows. Diagonal transitions commute: the state knows which a came between
two tokens, not in which order.

Shapes: B batch, T tokens, D channels, n entries of the state.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from ...errors import Error, UnknownName
from .base import Output, Scanned


class Diagonal(Scanned):
    """`state` is n. "real" entries turn by sign alone, "complex" ones by any angle."""

    name = "diagonal-lrnn"

    def __init__(
        self,
        width: int,
        *,
        state: Annotated[int, "How many numbers each state has."],
        numbers: Annotated[Literal["complex", "real"], "Whether transitions are complex or real numbers."],
        output: Output,
    ):
        super().__init__(width, output)
        if state < 1:
            raise Error(f"diagonal-lrnn: state must be at least 1, got {state}.")
        if numbers not in ("complex", "real"):
            raise UnknownName("numbers of diagonal-lrnn", numbers, ("complex", "real"))
        self.complex = numbers == "complex"
        parts = 2 * state if self.complex else state
        self.transition, self.inputs = nn.Linear(width, parts), nn.Linear(width, parts)
        self.readout = nn.Linear(parts, width)

    def transitions(self, u: Tensor) -> tuple[Tensor, Tensor]:
        z, v = (self._numbers(part(u.to(part.weight.dtype))) for part in (self.transition, self.inputs))
        return z / z.abs().clamp(min=1), v

    def _numbers(self, x: Tensor) -> Tensor:
        x = x.to(self.kind)
        return torch.complex(*x.chunk(2, -1)) if self.complex else x

    def read(self, x: Tensor) -> Tensor:
        x = torch.cat([x.real, x.imag], -1) if self.complex else x
        return self.readout(x.to(self.readout.weight.dtype)).to(self.kind)
