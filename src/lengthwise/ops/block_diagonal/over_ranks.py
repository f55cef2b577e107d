"""The scan of one rank's piece of a sequence, for `split_scan.py`: its states, its transfer P and z, and its gradients.

P and z are made in chunks side by side, which are then composed, for their steps are small products.

Shapes: as in the package; K chunks to a row, C tokens each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any

import torch
from torch import Tensor

from ...errors import Error
from ..kernels import Op
from ..ranks import Ranks
from ..split_scan import split_scan, times
from .autograd import gradients_of, states_of
from .call import NAME, ScanCall
from .eager import WIDEST, Steps, number_of_chunks, parts, products


@dataclass(frozen=True)
class Blocks:
    """Inputs: A, v and the index or None, as in `ScanCall`."""

    kernel: str

    def states(self, start: Tensor, *inputs: Any) -> tuple[Tensor, Tensor]:
        A, v, index = inputs
        if (v if index is None else index).shape[1] == 0:
            return start.new_empty(len(start), 0, *start.shape[1:]), start.new_empty(0)
        return states_of(A, v, start, None, index, self.kernel, self._chunks(v, index))

    def transfer(self, start: Tensor, *inputs: Any) -> tuple[Tensor, Tensor]:
        A, v, index = inputs
        (B, h, b), T = start.shape, (v if index is None else index).shape[1]
        P, z = self.identity(start), torch.zeros_like(start)
        if T == 0:
            return P, z
        for part in parts(T, max(1, min(isqrt(T), WIDEST // max(1, B * h * b * b)))):
            steps = Steps(A, index, start.dtype, part)
            added = part.take(v) if index is None else v.index_select(0, part.take(index).flatten())
            added = added.to(start.dtype).reshape(part.length, steps.N, b, 1)
            P_of, z_of = products(steps, added, {})
            chunks = zip(P_of.view(B, -1, h, b, b).unbind(1), z_of.view(B, -1, h, b).unbind(1), strict=True)
            for P_k, z_k in chunks:
                P, z = P_k @ P, times(P_k, z) + z_k
        return P, z

    def gradients(
        self, g: Tensor, states: Tensor, kept: Any, needs: list[bool], start: Tensor, *inputs: Any
    ) -> tuple[Tensor | None, ...]:
        A, v, index = inputs
        of_start, of_A, of_v, _ = needs
        flags = [of_A, of_v, of_start]
        dA, dv, dstart = gradients_of(g, A, start, None, index, states, kept, self.kernel, flags)
        return dstart, None if dA is None else dA.to(A.dtype), None if dv is None else dv.to(v.dtype), None

    def identity(self, start: Tensor) -> Tensor:
        b = start.shape[-1]
        return torch.eye(b, dtype=start.dtype, device=start.device).expand(*start.shape, b).contiguous()

    def _chunks(self, v: Tensor, index: Tensor | None) -> int:
        return 1 if self.kernel == "numba" else number_of_chunks(v, index)


def over_ranks(op: Op[ScanCall], call: ScanCall, ranks: Ranks, backend: str) -> tuple[Tensor, Tensor]:
    """The states of this rank's piece, and the last of them."""
    kernel = op.choose(call, backend).name if call.batch[1] else "torch"
    if kernel not in ("torch", "numba"):
        raise Error(f"{NAME}: over ranks runs the torch or the numba kernel, got {kernel!r}. Use 'auto'.")
    return split_scan(Blocks(kernel), ranks, call.start, call.A, call.v, call.index)
