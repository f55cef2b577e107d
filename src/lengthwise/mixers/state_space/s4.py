"""S4: HiPPO-LegS, normal plus low rank, learned.

    x' = A x + B u,    y = C x + D u,    A = Λ - P P*           for every channel by itself
    Ā = (1 - Δ/2 A)^-1 (1 + Δ/2 A),    B̄ = (1 - Δ/2 A)^-1 Δ B       (bilinear, Δ its own)

Λ = -exp(ρ) + iω has a negative real part, so whatever is learned, A dissipates and no product of Ā grows. By
Woodbury's identity (1 - Δ/2 A)^-1 is G = (1 - Δ/2 Λ)^-1 less a matrix of rank one, and so Ā = 2 (1 - Δ/2 A)^-1 - 1 is
what `System` calls a = 2G - 1, p and q. Of each conjugate pair one is kept: N entries are n = N/2 complex ones.

Published training gives Λ, P, B and Δ a learning rate of at most 1e-3, and no weight decay.

Shapes: D channels, n complex entries of a channel's state.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from .base import Convolutional, Output, as_complex, check_state, complex_normal, complex_parameter, step_sizes
from .hippo import dplr
from .system import Coupling, System


class S4(Convolutional):
    """`state` is N. Δ starts log-uniform between `step_min` and `step_max`: what a channel remembers is about 1/Δ long.
    `output`: the map after it, a gated one as published, "linear", or "none"."""

    name = "s4"

    def __init__(
        self,
        width: int,
        *,
        state: Annotated[int, "How many numbers each state has, an even number."],
        step_min: Annotated[float, "The smallest step size a channel starts with; it remembers about 1/step tokens."],
        step_max: Annotated[float, "The largest step size a channel starts with."],
        output: Output,
    ):
        super().__init__(width, output)
        shape = width, check_state(self.name, state)
        Λ, P, B = (z.expand(shape) for z in dplr(state))
        self.decay = nn.Parameter((-Λ.real).log().to(torch.get_default_dtype()))
        self.frequency = nn.Parameter(Λ.imag.to(torch.get_default_dtype()).contiguous())
        self.P, self.B = complex_parameter(P), complex_parameter(B)
        self.C = complex_parameter(complex_normal(*shape))
        self.log_step = step_sizes(self.name, width, step_min, step_max)

    def continuous(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Λ, P, B, C, (D,n) each."""
        kind = self.kind
        Λ = torch.complex(-self.decay.to(kind).exp(), self.frequency.to(kind))
        P, B, C = (as_complex(part, kind) for part in (self.P, self.B, self.C))
        return Λ, P, B, C

    def discretise(self) -> System:
        Λ, P, B, C = self.continuous()
        half = self.log_step.to(self.kind).exp()[:, None] / 2
        G = 1 / (1 - half * Λ)
        # P* x counts both halves of x, that is, twice the real part of one.
        row = 2 * P.conj() * G / (1 + 2 * half * (P.abs().square() * G).real.sum(-1, keepdim=True))
        # (1 - Δ/2 A)^-1 x = G x - Δ/2 G P Re(row · x)
        b = 2 * half * (G * B - half * G * P * (row * B).sum(-1, keepdim=True).real)
        return System(2 * G - 1, b, 2 * C, Coupling(2 * half * G * P, row))
