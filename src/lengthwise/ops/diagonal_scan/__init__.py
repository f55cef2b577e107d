"""The linear recurrence with diagonal transitions: every entry of the state goes its own way.

    x_t = a_t ∘ x_{t-1} + v_t

Shapes: B batch, T tokens, n entries of the state, real or complex.
"""

from __future__ import annotations

from torch import Tensor

from ...errors import ShapeError
from ..backend import choose
from .reference import reference
from .torch import fast

IMPLEMENTATIONS = {"reference": reference, "torch": fast}


def diagonal_scan(a: Tensor, v: Tensor, initial: Tensor | None = None, *, backend: str = "auto") -> Tensor:
    """Every state, (B,T,n), of a (B,T,n) or (1,T,n), v (B,T,n) and the state before them, (B,n) or None for zero.

    >>> import torch
    >>> a, v = torch.tensor([2.0, 2.0, 0.0]), torch.ones(3)
    >>> diagonal_scan(a.view(1, 3, 1), v.view(1, 3, 1)).flatten().tolist()
    [1.0, 3.0, 1.0]
    """
    if a.dim() != 3 or v.dim() != 3 or a.shape[1:] != v.shape[1:] or a.shape[0] not in (1, v.shape[0]):
        raise ShapeError(
            f"diagonal_scan: v must be (B,T,n) and a (B,T,n) or (1,T,n), got a {list(a.shape)}, v {list(v.shape)}."
        )
    B, T, n = v.shape
    if T == 0:
        raise ShapeError("diagonal_scan: there must be at least one token, got T = 0.")
    if initial is None:
        initial = v.new_zeros(B, n)
    if initial.shape != (B, n):
        raise ShapeError(f"diagonal_scan: initial must be (B,n) = {[B, n]}, got {list(initial.shape)}.")
    return choose(backend, "diagonal_scan", IMPLEMENTATIONS)(a, v, initial)


__all__ = ["diagonal_scan"]
