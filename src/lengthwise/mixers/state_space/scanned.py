"""State spaces whose one diagonal recurrence all channels share, run by a scan.

    x_t = a_t ∘ x_{t-1} + v_t

A sequence that begins in the middle of a row forgets (a = 0), padding keeps the state (a = 1, v = 0).

Shapes: B batch, T tokens, D channels, n entries of the state.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...ops import diagonal_scan
from ...positions import Layout
from .base import SpaceState, StateSpace


class Scanned(StateSpace):
    def transitions(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """a (B,T,n) or (1,T,n), and v (B,T,n), of u (B,T,D)."""
        raise NotImplementedError

    def read(self, x: Tensor) -> Tensor:
        """(B,T,n) -> (B,T,D)"""
        raise NotImplementedError

    def mix(self, u: Tensor, layout: Layout, state: SpaceState | None) -> tuple[Tensor, SpaceState]:
        a, v = self.transitions(u)
        if state is not None:
            self._check_state(state, SpaceState(v[:, 0]))
        if layout.sequences is not None:
            a = torch.where((layout.positions == 0)[..., None], 0, a)
        if layout.real is not None:
            real = layout.real[..., None]
            a, v = torch.where(real, a, 1), torch.where(real, v, 0)
        x = diagonal_scan(a, v, None if state is None else state.x)
        return self.read(x), SpaceState(x[:, -1])
