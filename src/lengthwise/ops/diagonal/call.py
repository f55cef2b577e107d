"""A call of the diagonal scan."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ...errors import ShapeError

NAME = "diagonal_scan"


@dataclass(frozen=True)
class Call:
    a: Tensor
    """(B,T,n) or (1,T,n)"""
    v: Tensor
    """(B,T,n)"""
    initial: Tensor
    """(B,n)"""

    @classmethod
    def of(cls, a: Tensor, v: Tensor, initial: Tensor | None = None) -> Call:
        """The call that `diagonal_scan` makes of its arguments."""
        if a.dim() != 3 or v.dim() != 3 or a.shape[1:] != v.shape[1:] or a.shape[0] not in (1, v.shape[0]):
            raise ShapeError(
                f"{NAME}: v must be (B,T,n) and a (B,T,n) or (1,T,n), got a {list(a.shape)}, v {list(v.shape)}."
            )
        B, T, n = v.shape
        if T == 0:
            raise ShapeError(f"{NAME}: there must be at least one token, got T = 0.")
        if initial is None:
            initial = v.new_zeros(B, n)
        if initial.shape != (B, n):
            raise ShapeError(f"{NAME}: initial must be (B,n) = {[B, n]}, got {list(initial.shape)}.")
        return cls(a, v, initial)
