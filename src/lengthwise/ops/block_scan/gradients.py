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


def before(states: Tensor, start: Tensor, rows: Tensor | None) -> Tensor:
    """x_{t-1} (B,T,h,b)."""
    if rows is None:
        return torch.cat([start[:, None], states[:, :-1]], 1)
    x = states.roll(1, 1)
    row, t = (rows >= 0).nonzero(as_tuple=True)
    x[row, t] = start[rows[row, t]]
    return x


def of_starts(A: Tensor, index: Tensor | None, lam: Tensor, start: Tensor, rows: Tensor) -> Tensor:
    """(S,h,b)"""
    row, t = (rows >= 0).nonzero(as_tuple=True)
    A = (A[row, t] if index is None else A[index[row, t]]).to(lam.dtype)
    found = (A.mT @ lam[row, t].unsqueeze(-1)).squeeze(-1)
    return torch.zeros_like(start).index_add_(0, rows[row, t], found)


def of_table(lam: Tensor, x: Tensor, index: Tensor, V: int) -> Tensor:
    """(V,h,b,b) of λ and x_{t-1} (B,T,h,b)."""
    lam, x, index = lam.flatten(0, 1), x.flatten(0, 1), index.flatten()
    h, b = lam.shape[1:]
    found = lam.new_zeros(V, h, b, b)
    counts = torch.bincount(index, minlength=V)
    if len(index) < READERS * int((counts > 0).sum()):
        rows = max(1, SLAB // (h * b * b))
        for at, y, z in zip(index.split(rows), lam.split(rows), x.split(rows), strict=True):
            found.index_add_(0, at, y.unsqueeze(-1) * z.unsqueeze(-2))
        return found
    order = index.argsort()
    parts = (part.index_select(0, order).split(counts.tolist()) for part in (lam, x))
    for out, y, z in zip(found, *parts, strict=True):
        if len(y):
            torch.bmm(y.permute(1, 2, 0), z.transpose(0, 1), out=out)
    return found
