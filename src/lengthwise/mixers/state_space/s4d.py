"""S4D: S4 without the rank-one part.

    x' = Λ x + B u,    y = C x + D u                for every channel by itself

"zoh": a = exp(ΔΛ), b = (a - 1)/Λ B;  "bilinear": a = (1 + Δ/2 Λ)/(1 - Δ/2 Λ), b = Δ/(1 - Δ/2 Λ) B. The real part of Λ
is -exp(ρ), so |a| < 1.

Shapes: D channels, n complex entries of a channel's state.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import nn

from ...errors import UnknownName
from .base import Convolutional, Output, as_complex, check_state, complex_normal, complex_parameter, step_sizes
from .hippo import diagonal
from .system import System


class S4D(Convolutional):
    """`initial`: where Λ starts ("lin", "inv", "legs"; see hippo.py). All else as in `S4`."""

    name = "s4d"

    def __init__(
        self,
        width: int,
        *,
        state: Annotated[int, "How many numbers each state has, an even number."],
        initial: Annotated[
            Literal["lin", "inv", "legs"], "Which eigenvalues the states begin with (mixers/state_space/hippo.py)."
        ],
        discretisation: Annotated[
            Literal["zoh", "bilinear"], "How the continuous system becomes one step: zero-order hold, or bilinear."
        ],
        step_min: Annotated[float, "The smallest step size a channel starts with; it remembers about 1/step tokens."],
        step_max: Annotated[float, "The largest step size a channel starts with."],
        output: Output,
    ):
        super().__init__(width, output)
        shape = width, check_state(self.name, state)
        if discretisation not in ("zoh", "bilinear"):
            raise UnknownName("discretisation of s4d", discretisation, ("zoh", "bilinear"))
        self.discretisation = discretisation
        Λ, B = (z.expand(shape) for z in diagonal(initial, state))
        self.decay = nn.Parameter((-Λ.real).log().to(torch.get_default_dtype()))
        self.frequency = nn.Parameter(Λ.imag.to(torch.get_default_dtype()).contiguous())
        self.B = complex_parameter(B)
        self.C = complex_parameter(complex_normal(*shape))
        self.log_step = step_sizes(self.name, width, step_min, step_max)

    def discretise(self) -> System:
        kind = self.kind
        Λ = torch.complex(-self.decay.to(kind).exp(), self.frequency.to(kind))
        B, C = as_complex(self.B, kind), as_complex(self.C, kind)
        step = self.log_step.to(kind).exp()[:, None]
        if self.discretisation == "zoh":
            a = (step * Λ).exp()
            b = (a - 1) / Λ * B
        else:
            G = 1 / (1 - step / 2 * Λ)
            a, b = 2 * G - 1, step * G * B
        return System(a, b, 2 * C)
