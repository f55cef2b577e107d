"""LRU, the linear recurrent unit: one complex diagonal recurrence.

    x_t = λ ∘ x_{t-1} + γ ∘ (B u_t),    y_t = Re(C x_t) + D ∘ u_t,    λ = exp(-exp(ν) + i exp(θ))

So |λ| < 1 whatever is learned. λ starts uniform on a ring, γ at sqrt(1 - |λ|²), which keeps the state's variance at
that of B u.

Shapes: B batch, T tokens, D channels, n complex entries of the state.
"""

from __future__ import annotations

from math import pi
from typing import Annotated

import torch
from torch import Tensor, nn

from ...errors import Error
from .base import Output, Scanned, as_complex, complex_normal, complex_parameter


class LRU(Scanned):
    """`state` is n. The ring has radii `r_min` to `r_max` and phases 0 to `phase`; near 1 a radius remembers longer."""

    name = "lru"

    def __init__(
        self,
        width: int,
        *,
        state: Annotated[int, "How many numbers each state has."],
        r_min: Annotated[float, "The smallest radius on which eigenvalues start."],
        r_max: Annotated[float, "The largest radius on which eigenvalues start; near 1 they remember longer."],
        phase: Annotated[float, "The largest angle at which eigenvalues start, at most 2π."],
        output: Output,
    ):
        super().__init__(width, output)
        if state < 1:
            raise Error(f"lru: state must be at least 1, got {state}.")
        if not 0 <= r_min < r_max <= 1:
            raise Error(f"lru: the ring must have 0 <= r_min < r_max <= 1, got {r_min} and {r_max}.")
        if not 0 < phase <= 2 * pi:
            raise Error(f"lru: phase must be above 0 and at most 2π, got {phase}.")
        # Neither end itself: log 0 is there.
        square, angle = (torch.rand(state).clamp(1e-6, 1 - 1e-6) for _ in range(2))
        square = r_min**2 + square * (r_max**2 - r_min**2)
        self.nu = nn.Parameter((-square.log() / 2).log())
        self.theta = nn.Parameter((phase * angle).log())
        self.log_gamma = nn.Parameter((1 - square).log() / 2)
        self.B = complex_parameter(complex_normal(state, width) / width**0.5)
        self.C = complex_parameter(complex_normal(width, state) * (2 / state) ** 0.5)

    def transitions(self, u: Tensor) -> tuple[Tensor, Tensor]:
        kind = self.kind
        a = torch.complex(-self.nu.to(kind).exp(), self.theta.to(kind).exp()).exp()
        B = self.log_gamma.to(kind).exp()[:, None] * as_complex(self.B, kind)
        return a.expand(1, u.shape[1], -1), torch.complex(u @ B.real.mT, u @ B.imag.mT)

    def read(self, x: Tensor) -> Tensor:
        C = as_complex(self.C, self.kind)
        return x.real @ C.real.mT - x.imag @ C.imag.mT
