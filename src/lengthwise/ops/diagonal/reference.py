"""The oracle of the diagonal scan: one token after another."""

from __future__ import annotations

import torch
from torch import Tensor

from .call import Call


def oracle(call: Call) -> Tensor:
    """Every state, (B,T,n)."""
    x, states = call.initial, []
    for t in range(call.v.shape[1]):
        x = call.a[:, t] * x + call.v[:, t]
        states.append(x)
    return torch.stack(states, 1)
