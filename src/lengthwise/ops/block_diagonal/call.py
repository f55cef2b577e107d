"""A call of the scan: its arguments, checked and brought into one form, and what is made of the states at the end.

Shapes: as in the package; S states to begin from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...errors import Error, NonFiniteError, ShapeError
from ..checks import are_edges, readable

NAME = "block_scan"


@dataclass(frozen=True)
class ScanCall:
    A: Tensor
    """(B,T,h,b,b), or with an index the table (V,h,b,b)."""
    v: Tensor
    """(B,T,h,b), or (V,h,b)."""
    start: Tensor
    """(S,h,b), the states that sequences begin from, in single precision or better: in that all is computed."""
    start_row: Tensor | None
    """(B,T) integers: the row of `start` that token t begins from, -1 where it goes on from the token before it. None:
    row r of the batch begins once, from start[r], and S = B."""
    index: Tensor | None
    """(B,T) integers: the row of the tables that each token reads."""

    @property
    def batch(self) -> tuple[int, int]:
        """(B, T)"""
        B, T = (self.v if self.index is None else self.index).shape[:2]
        return B, T


def starts(v, initial, cu_seqlens, begins, restart, index) -> tuple[Tensor, Tensor | None]:
    """start and start_row."""
    B, T = (v if index is None else index).shape[:2]
    dtype, shape = torch.promote_types(v.dtype, torch.float32), v.shape[-2:]
    S = B if cu_seqlens is None else len(cu_seqlens) - 1
    start = v.new_zeros(S, *shape, dtype=dtype) if initial is None else initial.to(dtype).expand(S, *shape)
    if cu_seqlens is not None:
        edges, t = cu_seqlens.to(v.device), torch.arange(T, device=v.device)
        # The last edge that is not after t is that of t's own sequence, whatever empty ones share it.
        own = torch.searchsorted(edges, t, right=True) - 1
        return start, torch.where(edges[own] == t, own, -1)[None]
    if begins is None:
        return start, None
    new = torch.arange(B, device=v.device)[:, None]
    first = torch.arange(T, device=v.device) == 0
    goes_on = torch.where(first, new, -1)
    if restart is not None:
        start, new = torch.cat([start, restart.to(dtype).expand(B, *shape)]), new + B
    return start, torch.where(begins, new, goes_on)


def last_states(states: Tensor, start: Tensor, cu_seqlens: Tensor | None) -> Tensor:
    """The last state of every row, or packed sequence: a copy, which does not keep the others alive."""
    if cu_seqlens is None:
        return states[:, -1].clone()
    edges = cu_seqlens.to(states.device)
    last = states[0, (edges[1:] - 1).clamp(min=0)]
    return torch.where((edges.diff() > 0)[:, None, None], last, start)


def check_finite(states: Tensor, call: ScanCall) -> None:
    """Name a NaN or infinity in A. Only where a state shows one is A, b times as large, looked at."""
    A, index = call.A, call.index
    if not readable(states, A, call.v, index) or _sum_is_finite(states):
        return
    bad = ~A.detach().isfinite().flatten(1 if index is not None else 2).all(-1)
    bad = bad if index is None else bad[index]
    if not bool(bad.any()):
        return
    t = int(bad.any(0).int().argmax())
    row = int(bad[:, t].int().argmax())
    token = "" if index is None else f" (row {int(index[row, t])} of the table)"
    raise NonFiniteError(
        f"{NAME}: A must be finite, but holds NaN or infinity first at t = {t}, in row {row} of the batch{token}. Look "
        "at what computes the transitions: a norm divided by zero, or weights that have diverged."
    )


def _sum_is_finite(states: Tensor) -> bool:
    """By NumPy where that can be: torch's threads, once they have summed, spin for milliseconds on the cores of those
    that run the compiled loops."""
    if type(states) is not Tensor:
        return bool(states.detach().sum().isfinite())
    with np.errstate(all="ignore"):
        return bool(np.isfinite(states.detach().numpy().sum()))


def check(A, v, initial, cu_seqlens, begins, restart, index, split) -> None:
    """Raises where the arguments of `block_scan` do not fit together; `split`: its rows go on on other ranks."""
    lead, dims = ("(V,", 3) if index is not None else ("(B,T,", 4)
    if v.dim() != dims or A.shape != (*v.shape, v.shape[-1]):
        raise ShapeError(
            f"{NAME}: A is {lead}h,b,b) and v {lead}h,b), one square block to each part of v, "
            f"got {list(A.shape)} and {list(v.shape)}."
        )
    if not A.is_floating_point() or A.dtype != v.dtype:
        raise Error(f"{NAME}: A and v must be floating point and alike, got {A.dtype} and {v.dtype}.")
    if index is not None:
        _check_index(index, len(v))
    B, T = (v if index is None else index).shape[:2]
    if split and (cu_seqlens is not None or begins is not None):
        raise Error(f"{NAME}: rows that go on on other ranks hold one sequence each. Leave out cu_seqlens and begins.")
    if T == 0 and not split:
        raise ShapeError(f"{NAME}: there must be at least one token, got T = 0.")
    if begins is not None and (begins.shape != (B, T) or begins.dtype != torch.bool):
        raise ShapeError(f"{NAME}: begins must be (B,T) = {[B, T]} bool, got {list(begins.shape)} {begins.dtype}.")
    if restart is not None and begins is None:
        raise Error(f"{NAME}: restart is what a token of `begins` starts from, got no begins. Pass both or neither.")
    sequences = B
    if cu_seqlens is not None:
        if B != 1 or begins is not None or not are_edges(cu_seqlens, T):
            raise ShapeError(
                f"{NAME}: cu_seqlens is [0, …, T], never falling, of one row, B = 1, without begins, got B = {B}, "
                f"T = {T}, begins {'given' if begins is not None else 'None'} and {cu_seqlens.tolist()}."
            )
        sequences = len(cu_seqlens) - 1
    for name, x in (("initial", initial), ("restart", restart)):
        if x is not None and x.shape not in ((sequences, *v.shape[-2:]), (1, *v.shape[-2:])):
            letter = "B" if cu_seqlens is None else "N"
            raise ShapeError(
                f"{NAME}: {name} must be ({letter},h,b) = {[sequences, *v.shape[-2:]]}, or the same for all, (1,h,b), "
                f"got {list(x.shape)}."
            )


def _check_index(index: Tensor, V: int) -> None:
    if index.dim() != 2 or index.is_floating_point() or index.dtype == torch.bool:
        raise ShapeError(f"{NAME}: index must be (B,T) integers, got {list(index.shape)} {index.dtype}.")
    if not readable(index) or index.numel() == 0:
        return
    low, high = (int(x) for x in index.aminmax())
    if low < 0 or high >= V:
        wrong = low if low < 0 else high
        raise Error(f"{NAME}: index must be at least 0 and below V = {V}, the rows of the tables, got {wrong}.")
