"""Liquid-S4: S4 whose transition also takes in the input.

    x_t = (Ā + diag(B̄ u_t)) x_{t-1} + B̄ u_t,    y_t = C x_t + D u_t

diag(B̄ u) is in the coordinates in which Λ is diagonal. Multiplied out, y is a sum over subsets s_1 < … < s_p <= t of
C … B̄ ∘ … B̄ u_{s_1} … u_{s_p}, with Ā between them. p = 1 is S4; the kernels keep of the others, up to order P:

    "kb"     runs of consecutive tokens:     y_t += Σ_p Σ_s C Ā^(t-s) B̄^p v^p_s        v^p_s = u_s u_{s-1} … u_{s-p+1}
    "pb"     runs that end at the token:     y_t += Σ_p C B̄^p v^p_t                    (of kb's sum, s = t alone)
    "exact"  all, token by token; nothing bounds its products, so it can grow without end

B̄^p is by entries. Decoding is exact for each: kb is S4's recurrence with the input B̄ u_t + Σ_p B̄^p v^p_t, pb is S4's
with the sum added to its output; both remember the last P - 1 inputs beside the state.

The released code differs: it takes products of tokens at the end of the sequence and lays them out in reverse, so that
outputs depend on later tokens, and its B̄^p sums over entries. That cannot be decoded, and is not here.

Shapes: B batch, T tokens, D channels, n complex entries of a channel's state, P order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from ...errors import Error, UnknownName
from ...options import Inherited
from .base import SpaceState
from .s4 import S4
from .system import System


class LiquidS4(S4):
    """`kernel`: which products are kept; `order`: of how many inputs at most, for "pb" and "kb". The rest is S4's."""

    name = "liquid-s4"

    def __init__(
        self,
        width: int,
        *,
        kernel: Annotated[
            Literal["pb", "kb", "exact"], "Which products of inputs are kept; exact: all, by recurrence."
        ],
        order: Annotated[int, "How many inputs a product has at most, for the kernels pb and kb."],
        **shared: Inherited,
    ):
        super().__init__(width, **shared)
        if kernel not in ("pb", "kb", "exact"):
            raise UnknownName("kernel of liquid-s4", kernel, ("pb", "kb", "exact"))
        if order < 2:
            raise Error(f"liquid-s4: order must be at least 2, got {order}. Of order 1 it is s4.")
        self.kernel, self.order = kernel, order
        self.convolves = kernel != "exact"

    def fresh(self, system: System, u: Tensor) -> SpaceState:
        recent = u.new_zeros(len(u), u.shape[-1], self.order - 1) if self.convolves else None
        return SpaceState(super().fresh(system, u).x, recent)

    def whole(self, system: System, u: Tensor, state: SpaceState | None, ends: bool) -> tuple[Tensor, Any]:
        y, end = system.run(u, state and state.x, ends=ends)
        recent = state and state.recent
        recent = u.new_zeros(*u.shape[:2], self.order - 1) if recent is None else recent
        inputs = torch.cat([recent, u], -1)
        for b, v in self._terms(system, inputs):
            if self.kernel == "pb":
                y = y + _now(system, b)[:, None] * v
            else:
                more, further = system._replace(b=b).run(v, ends=ends)
                y, end = y + more, None if end is None or further is None else end + further
        return y, None if end is None else SpaceState(end, inputs[..., u.shape[-1] :])

    def advance(self, system: System, u: Tensor, state: SpaceState) -> tuple[Tensor, SpaceState]:
        y, x = system.step(u, state.x)
        if state.recent is None:
            x = x + system.b * u[..., None] * state.x
            return (system.c * x).sum(-1).real, SpaceState(x)
        inputs = torch.cat([state.recent, u[..., None]], -1)
        for b, v in self._terms(system, inputs):
            y = y + (_now(system, b) * v)[..., 0]
            if self.kernel == "kb":
                x = x + b * v
        return y, SpaceState(x, inputs[..., 1:])

    def _terms(self, system: System, inputs: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """B̄^p (D,n) and v^p (…,T) for p = 2 … P, of the inputs with P - 1 more before them."""
        T = inputs.shape[-1] - self.order + 1
        b, v = system.b, inputs[..., self.order - 1 :]
        for p in range(2, self.order + 1):
            b, v = b * system.b, v * inputs[..., self.order - p :][..., :T]
            yield b, v


def _now(system: System, b: Tensor) -> Tensor:
    """C b (D,1)"""
    return (system.c * b).sum(-1, keepdim=True).real
