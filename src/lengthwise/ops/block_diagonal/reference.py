"""The oracle: one token after another."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .call import ScanCall


def oracle(call: ScanCall) -> Tensor:
    """States (B,T,h,b) in the precision of `start`."""
    A, v, start, start_row = call.A, call.v, call.start, call.start_row
    if call.index is not None:
        A, v = A[call.index], v[call.index]
    A, v = A.to(start.dtype), v.to(start.dtype)
    x = start if start_row is None else start[start_row[:, 0]]
    states = []
    for t in range(v.shape[1]):
        if start_row is not None:
            row = start_row[:, t]
            x = torch.where(row[:, None, None] >= 0, start[row.clamp(min=0)], x)
        x = (A[:, t] @ x.unsqueeze(-1)).squeeze(-1) + v[:, t]
        states.append(x)
    return torch.stack(states, 1)


# Two parallel scans, Hillis and Steele's and Blelloch's: transitions are composed, and torch differentiates.
#
#     (A', v') ∘ (A, v) = (A'A, A'v + v')         as one matrix of b + 1 columns:  A' [A | v] + [0 | v']
#
# Hillis and Steele's composes every token with the one 1, 2, 4, … before it: T log T compositions in log T rounds.
# Blelloch's composes pairs, solves the half that is left and fills in the others: 2 T compositions in 2 log T rounds.
#
# Shapes: as in the package.


def hillis_steele(call: ScanCall) -> Tensor:
    """As `oracle`."""
    A, v = _from_zero(call)
    T, D = v.shape[1], 1
    while D < T:
        earlier, both = torch.cat([A, v], -1)[:, : T - D], A[:, D:]
        composed = both @ earlier
        A = torch.cat([A[:, :D], composed[..., :-1]], 1)
        v = torch.cat([v[:, :D], composed[..., -1:] + v[:, D:]], 1)
        D *= 2
    return v.squeeze(-1)


def blelloch(call: ScanCall) -> Tensor:
    """As `oracle`."""
    return _solve_by_halves(*_from_zero(call)).squeeze(-1)


def _solve_by_halves(A: Tensor, v: Tensor) -> Tensor:
    T = v.shape[1]
    if T == 1:
        return v
    first, second = (x[:, : T // 2 * 2 : 2] for x in (A, v)), (x[:, 1::2] for x in (A, v))
    (A_0, v_0), (A_1, v_1) = first, second
    odd = _solve_by_halves(A_1 @ A_0, A_1 @ v_0 + v_1)
    even = torch.cat([v[:, :1], A[:, 2::2] @ odd[:, : (T - 1) // 2] + v[:, 2::2]], 1)
    if T % 2:
        odd = F.pad(odd, (0, 0) * 3 + (0, 1))
    return torch.stack([even, odd], 2).flatten(1, 2)[:, :T]


def _from_zero(call: ScanCall) -> tuple[Tensor, Tensor]:
    """A and v of sequences that begin from zero and have the same states: where one begins v is A start + v, A is 0."""
    A, v, start, start_row = call.A, call.v, call.start, call.start_row
    if call.index is not None:
        A, v = A[call.index], v[call.index]
    A, v = A.to(start.dtype), v.to(start.dtype).unsqueeze(-1)
    if start_row is None:
        begins = torch.arange(v.shape[1], device=v.device) == 0
        from_start = start[:, None]
    else:
        begins, from_start = start_row >= 0, start[start_row.clamp(min=0)]
    here = begins[..., None, None, None]
    v = v + torch.where(here, A @ from_start.unsqueeze(-1), 0.0)
    return A.masked_fill(here, 0.0), v
