"""The forward and the backward pass of a whole call.

They take flat tensors, for so autograd and torch.compile hand them over. `kernel` is "numba" or "torch"; `chunks` is
how many the latter cuts a row into.

Shapes: as in the package; K chunks to a row.
"""

from __future__ import annotations

from torch import Tensor

from . import eager, numba
from .call import Call
from .outer_products import of_starts, of_table, states_before


def states_of(A, v, start, start_row, index, kernel: str, chunks: int) -> tuple[Tensor, Tensor]:
    """The states (B,T,h,b), and the products of each chunk's transitions (B K h,b,b), none where nothing is cut."""
    call = Call(A, v, start, start_row, index)
    if kernel == "numba":
        return numba.states_of(call), start.new_empty(0, *A.shape[-2:])
    return eager.states_of(call, chunks)


def gradients_of(
    g, A, start, start_row, index, states, products, kernel: str, needs: list[bool]
) -> tuple[Tensor | None, ...]:
    """Those of A, v and start that are needed, from the gradient g of the states and what the forward pass kept."""
    (B, _, h, b), g = g.shape, g.to(start.dtype)
    if kernel == "numba":
        lam, after, dA = numba.adjoint_of(g, A, start, start_row, index, states, outer=needs[0])
    else:
        (lam, after), dA = eager.adjoint_of(g, A, start, start_row, index, products), None
    dv = dstart = None
    if needs[0] and dA is None:
        x = states_before(states, start, start_row)
        dA = lam.unsqueeze(-1) * x.unsqueeze(-2) if index is None else of_table(lam, x, index, len(A))
    if needs[1]:
        dv = lam if index is None else lam.new_zeros(len(A), h, b).index_add_(0, index.flatten(), lam.flatten(0, 1))
    if needs[2]:
        dstart = after.view(B, h, b) if start_row is None else of_starts(A, index, lam, start, start_row)
    return dA, dv, dstart
