"""The oracle: one token after another."""

from __future__ import annotations

import torch
from torch import Tensor

from .call import Call


def oracle(call: Call) -> Tensor:
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
