"""Block scan: the state of a linear recurrence whose transitions are block-diagonal and change from token to token.

    x_t = A_t x_{t-1} + v_t,      A_t = diag(A_t^1 … A_t^h)

It is associative: (A, v) then (A', v') is (A'A, A'v + v'), so it can be done in log T rounds, at b times the work.

Shapes: B batch, T tokens, h blocks, b their width, N packed sequences, V rows of a table.
"""

from __future__ import annotations

from torch import Tensor

from ..checks import without_autocast
from ..kernels import Kernel, Op
from ..ranks import Ranks
from . import numba
from .autograd import by_numba, by_torch, over_ranks
from .call import NAME, ScanCall, check, check_finite, last_states, starts
from .reference import blelloch, hillis_steele, oracle

OP: Op[ScanCall] = Op(
    NAME,
    [
        Kernel("numba", by_numba, numba.supports, priority=2, worthwhile=numba.worthwhile),
        Kernel("torch", by_torch, priority=1),
        Kernel("reference", oracle),
        Kernel("blelloch", blelloch, priority=-1),
        Kernel("hillis-steele", hillis_steele, priority=-2),
    ],
)


def block_scan(
    A: Tensor,
    v: Tensor,
    initial: Tensor | None = None,
    *,
    cu_seqlens: Tensor | None = None,
    begins: Tensor | None = None,
    restart: Tensor | None = None,
    index: Tensor | None = None,
    ranks: Ranks | None = None,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """states (B,T,h,b) and final (B,h,b) of A (B,T,h,b,b), v (B,T,h,b) and initial (B,h,b), (1,h,b) or None for zeros.

    begins: (B,T) bool, the tokens that begin a sequence: there x_{t-1} is `initial`, or `restart` if given, (B,h,b) or
    (1,h,b), as when `initial` is the state of an earlier piece and new sequences begin from a learned vector.
    cu_seqlens: [0, n1, n1+n2, …, T]: one row (B = 1) of sequences end to end. initial is (1,h,b) for all of them or
    (N,h,b), one a sequence, and final (N,h,b): each one's last state (an empty one's is its initial).
    index: (B,T) integers. A (V,h,b,b) and v (V,h,b) are then tables, and token t has their row index[:, t].
    ranks: the rows go on on other ranks, and these are this rank's tokens, 0 or more. `initial` counts on the first
    rank alone, and final is the state after this rank's tokens (ops/split_scan.py).
    backend: besides those of every op "hillis-steele" and "blelloch", the scans over composed transitions.

    Half precision is summed in single. On a CPU a NaN or infinity in A is an error that names its place.

    >>> import torch
    >>> A = torch.tensor([0.5, 0.5, 2.0]).view(1, 3, 1, 1, 1)
    >>> states, final = block_scan(A, torch.ones(1, 3, 1, 1), torch.tensor([[[4.0]]]))  # 4/2 + 1; 3/2 + 1; 2·2.5 + 1
    >>> states.flatten().tolist(), final.item()
    ([3.0, 2.5, 6.0], 6.0)
    """
    with without_autocast(v):
        check(A, v, initial, cu_seqlens, begins, restart, index, split=ranks is not None)
        index = None if index is None else index.long()  # bytes would be read as a mask
        call = ScanCall(A, v, *starts(v, initial, cu_seqlens, begins, restart, index), index)
        if ranks is not None:
            states, final = over_ranks(OP, call, ranks, backend)
            check_finite(states, call)
            return states.to(v.dtype), final.to(v.dtype)
        states = OP.run(call, backend)
        check_finite(states, call)
        return states.to(v.dtype), last_states(states, call.start, cu_seqlens).to(v.dtype)


__all__ = ["OP", "ScanCall", "block_scan"]
