"""From λ to gradients: an outer product at every token, for a table summed over the tokens that read a row.

    dA_t = λ_t x_{t-1}^T        dA[i] = Σ_{t: index_t = i} λ_t x_{t-1}^T        dstart = Σ A_t^T λ_t where a row begins

Shapes: as in the package; S states to begin from, M = B T tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

READERS = 16
"""With fewer tokens to a row of the table than this, outer products are added one by one, else they are one product."""
SLAB = 2**18
"""Numbers of outer products at a time."""


def states_before(states: Tensor, start: Tensor, start_row: Tensor | None) -> Tensor:
    """x_{t-1} (B,T,h,b)."""
    if start_row is None:
        return torch.cat([start[:, None], states[:, :-1]], 1)
    x = states.roll(1, 1)
    row, t = (start_row >= 0).nonzero(as_tuple=True)
    x[row, t] = start[start_row[row, t]]
    return x


def of_starts(A: Tensor, index: Tensor | None, lam: Tensor, start: Tensor, start_row: Tensor) -> Tensor:
    """(S,h,b)"""
    row, t = (start_row >= 0).nonzero(as_tuple=True)
    A = (A[row, t] if index is None else A[index[row, t]]).to(lam.dtype)
    each = (A.mT @ lam[row, t].unsqueeze(-1)).squeeze(-1)
    return torch.zeros_like(start).index_add_(0, start_row[row, t], each)


def of_table(lam: Tensor, x: Tensor, index: Tensor, V: int) -> Tensor:
    """(V,h,b,b) of λ and x_{t-1} (B,T,h,b)."""
    lam, x, index = lam.flatten(0, 1), x.flatten(0, 1), index.flatten()
    h, b = lam.shape[1:]
    dA = lam.new_zeros(V, h, b, b)
    counts = torch.bincount(index, minlength=V)
    if len(index) < READERS * int((counts > 0).sum()):
        size = max(1, SLAB // (h * b * b))
        for at, y, z in zip(index.split(size), lam.split(size), x.split(size), strict=True):
            dA.index_add_(0, at, y.unsqueeze(-1) * z.unsqueeze(-2))
        return dA
    order = index.argsort()
    by_row = (part.index_select(0, order).split(counts.tolist()) for part in (lam, x))
    for out, y, z in zip(dA, *by_row, strict=True):
        if len(y):
            torch.bmm(y.permute(1, 2, 0), z.transpose(0, 1), out=out)
    return dA
