"""The oracle: one token after another."""

from __future__ import annotations

import torch
from torch import Tensor


def reference(A: Tensor, v: Tensor, start: Tensor, rows: Tensor | None, index: Tensor | None) -> Tensor:
    """States (B,T,h,b) in the precision of `start` (S,h,b), the states that sequences begin from.

    rows: (B,T) which of them token t begins from, -1 where it goes on; None: row r of the batch begins once, from r.
    """
    if index is not None:
        A, v = A[index], v[index]
    A, v = A.to(start.dtype), v.to(start.dtype)
    x = start if rows is None else start[rows[:, 0]]
    states = []
    for t in range(v.shape[1]):
        if rows is not None:
            begins = rows[:, t]
            x = torch.where(begins[:, None, None] >= 0, start[begins.clamp(min=0)], x)
        x = (A[:, t] @ x.unsqueeze(-1)).squeeze(-1) + v[:, t]
        states.append(x)
    return torch.stack(states, 1)
