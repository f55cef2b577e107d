"""The linear recurrence with diagonal transitions: every entry of the state goes its own way.

    x_t = a_t ∘ x_{t-1} + v_t

Shapes: B batch, T tokens, n entries of the state, real or complex.
"""

from __future__ import annotations

from torch import Tensor

from ..kernels import Kernel, Op
from .call import NAME, Call
from .eager import by_torch
from .reference import oracle

OP: Op[Call] = Op(NAME, [Kernel("torch", by_torch, priority=1), Kernel("reference", oracle)])


def diagonal_scan(a: Tensor, v: Tensor, initial: Tensor | None = None, *, backend: str = "auto") -> Tensor:
    """Every state, (B,T,n), of a (B,T,n) or (1,T,n), v (B,T,n) and the state before them, (B,n) or None for zero.

    >>> import torch
    >>> a, v = torch.tensor([2.0, 2.0, 0.0]), torch.ones(3)
    >>> diagonal_scan(a.view(1, 3, 1), v.view(1, 3, 1)).flatten().tolist()
    [1.0, 3.0, 1.0]
    """
    return OP.run(Call.of(a, v, initial), backend)


__all__ = ["OP", "Call", "diagonal_scan"]
