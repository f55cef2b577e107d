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

from ...options import Inherited
from .base import Convolutional, as_complex
from .hippo import dplr
from .system import Coupling, System


class S4(Convolutional):
    """`state` is N. Δ starts log-uniform between `step_min` and `step_max`: what a channel remembers is about 1/Δ long.
    `output`: the map after it, a gated one as published, "linear", or "none"."""

    name = "s4"

    def __init__(self, width: int, **shared: Inherited):
        super().__init__(width, dplr, **shared)

    def discretise(self) -> System:
        Λ, B, C, step = self.continuous()
        P, half = as_complex(self.P, step.dtype), step / 2
        G = 1 / (1 - half * Λ)
        # P* x counts both halves of x, that is, twice the real part of one.
        row = 2 * P.conj() * G / (1 + 2 * half * (P.abs().square() * G).real.sum(-1, keepdim=True))
        # (1 - Δ/2 A)^-1 x = G x - Δ/2 G P Re(row · x)
        b = 2 * half * (G * B - half * G * P * (row * B).sum(-1, keepdim=True).real)
        return System(2 * G - 1, b, 2 * C, Coupling(2 * half * G * P, row))
