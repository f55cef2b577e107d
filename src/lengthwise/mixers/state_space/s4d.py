"""S4D: S4 without the rank-one part.

    x' = Λ x + B u,    y = C x + D u                for every channel by itself

"zoh": a = exp(ΔΛ), b = (a - 1)/Λ B;  "bilinear": a = (1 + Δ/2 Λ)/(1 - Δ/2 Λ), b = Δ/(1 - Δ/2 Λ) B. The real part of Λ
is -exp(ρ), so |a| < 1.

Shapes: D channels, n complex entries of a channel's state.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from ...errors import UnknownName
from ...options import Inherited
from .base import Convolutional
from .hippo import diagonal
from .system import System


class S4D(Convolutional):
    """`initial`: where Λ starts ("lin", "inv", "legs"; see hippo.py). All else as in `S4`."""

    name = "s4d"

    def __init__(
        self,
        width: int,
        *,
        initial: Annotated[
            Literal["lin", "inv", "legs"], "Which eigenvalues the states begin with (mixers/state_space/hippo.py)."
        ],
        discretisation: Annotated[
            Literal["zoh", "bilinear"], "How the continuous system becomes one step: zero-order hold, or bilinear."
        ],
        **shared: Inherited,
    ):
        super().__init__(width, partial(diagonal, initial), **shared)
        if discretisation not in ("zoh", "bilinear"):
            raise UnknownName("discretisation of s4d", discretisation, ("zoh", "bilinear"))
        self.discretisation = discretisation

    def discretise(self) -> System:
        Λ, B, C, step = self.continuous()
        if self.discretisation == "zoh":
            a = (step * Λ).exp()
            b = (a - 1) / Λ * B
        else:
            G = 1 / (1 - step / 2 * Λ)
            a, b = 2 * G - 1, step * G * B
        return System(a, b, 2 * C)
