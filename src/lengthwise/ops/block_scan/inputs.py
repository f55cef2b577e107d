"""What the scan is given, checked and brought into one form: where sequences begin, and from which states.

Shapes: as in the package; S states to begin from.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor  # pyright: ignore[reportMissingImports]

from ...errors import Error, NonFiniteError, ShapeError

OP = "block_scan"


def in_single(like: Tensor):
    """Within it autocast is off: what is given in half precision is summed in single."""
    return torch.autocast(like.device.type, enabled=False)


def starts(v, initial, cu_seqlens, begins, restart, index) -> tuple[Tensor, Tensor | None]:
    """start (S,h,b) in single precision or better, and rows (B,T): which of them token t begins from, -1 for none.

    No rows: the batch's rows are S sequences, each beginning once.
    """
    B, T = (v if index is None else index).shape[:2]
    kind, shape = torch.promote_types(v.dtype, torch.float32), v.shape[-2:]
    S = B if cu_seqlens is None else len(cu_seqlens) - 1
    start = v.new_zeros(S, *shape, dtype=kind) if initial is None else initial.to(kind).expand(S, *shape)
    if cu_seqlens is not None:
        edges, t = cu_seqlens.to(v.device), torch.arange(T, device=v.device)
        # The last edge that is not after t is that of t's own sequence, whatever empty ones share it.
        own = torch.searchsorted(edges, t, right=True) - 1
        return start, torch.where(edges[own] == t, own, -1)[None]
    if begins is None:
        return start, None
    new = torch.arange(B, device=v.device)[:, None]
    first = torch.arange(T, device=v.device) == 0
    goes_on = torch.where(first, new, -1)
    if restart is not None:
        start, new = torch.cat([start, restart.to(kind).expand(B, *shape)]), new + B
    return start, torch.where(begins, new, goes_on)


def ends(states: Tensor, start: Tensor, cu_seqlens: Tensor | None) -> Tensor:
    """The last state of every row, or packed sequence: a copy, which does not keep the others alive."""
    if cu_seqlens is None:
        return states[:, -1].clone()
    edges = cu_seqlens.to(states.device)
    last = states[0, (edges[1:] - 1).clamp(min=0)]
    return torch.where((edges.diff() > 0)[:, None, None], last, start)


def hidden(*tensors: Tensor | None) -> bool:
    """Whether numbers cannot be looked at: in a compiled graph, in a stack, or where it would make a GPU wait."""
    given = [x for x in tensors if x is not None]
    return torch.compiler.is_compiling() or any(is_functorch_wrapped_tensor(x) or x.device.type != "cpu" for x in given)


def finite(states: Tensor, A: Tensor, v: Tensor, index: Tensor | None) -> None:
    """A NaN or infinity in A is named. Only where a state shows one is A, b times as large, looked at."""
    if hidden(states, A, v, index) or _finite_sum(states):
        return
    bad = ~A.detach().isfinite().flatten(1 if index is not None else 2).all(-1)
    bad = bad if index is None else bad[index]
    if not bool(bad.any()):
        return
    t = int(bad.any(0).int().argmax())
    row = int(bad[:, t].int().argmax())
    token = "" if index is None else f" (row {int(index[row, t])} of the table)"
    raise NonFiniteError(
        f"{OP}: A must be finite, but holds NaN or infinity first at t = {t}, in row {row} of the batch{token}. Look "
        "at what computes the transitions: a norm divided by zero, or weights that have diverged."
    )


def _finite_sum(states: Tensor) -> bool:
    """Whether the sum is finite. By NumPy where that can be: torch's threads, once they have summed, spin for
    milliseconds, on the cores of those that run the loops."""
    if type(states) is not Tensor:
        return bool(states.detach().sum().isfinite())
    with np.errstate(all="ignore"):
        return bool(np.isfinite(states.detach().numpy().sum()))


def check(A, v, initial, cu_seqlens, begins, restart, index) -> None:
    lead, dims = ("(V,", 3) if index is not None else ("(B,T,", 4)
    if v.dim() != dims or A.shape != (*v.shape, v.shape[-1]):
        raise ShapeError(
            f"{OP}: A is {lead}h,b,b) and v {lead}h,b), one square block to each part of v, "
            f"got {list(A.shape)} and {list(v.shape)}."
        )
    if not A.is_floating_point() or A.dtype != v.dtype:
        raise Error(f"{OP}: A and v must be floating point and alike, got {A.dtype} and {v.dtype}.")
    if index is not None:
        _check_index(index, len(v))
    B, T = (v if index is None else index).shape[:2]
    if T == 0:
        raise ShapeError(f"{OP}: there must be at least one token, got T = 0.")
    if begins is not None and (begins.shape != (B, T) or begins.dtype != torch.bool):
        raise ShapeError(f"{OP}: begins must be (B,T) = {[B, T]} bool, got {list(begins.shape)} {begins.dtype}.")
    if restart is not None and begins is None:
        raise Error(f"{OP}: restart is what a token of `begins` starts from, got no begins. Pass both or neither.")
    many = B
    if cu_seqlens is not None:
        if B != 1 or begins is not None or not _edges(cu_seqlens, T):
            raise ShapeError(
                f"{OP}: cu_seqlens is [0, …, T], never falling, of one row, B = 1, without begins, got B = {B}, "
                f"T = {T}, begins {'given' if begins is not None else 'None'} and {cu_seqlens.tolist()}."
            )
        many = len(cu_seqlens) - 1
    for name, x in (("initial", initial), ("restart", restart)):
        if x is not None and x.shape not in ((many, *v.shape[-2:]), (1, *v.shape[-2:])):
            letter = "B" if cu_seqlens is None else "N"
            raise ShapeError(
                f"{OP}: {name} must be ({letter},h,b) = {[many, *v.shape[-2:]]}, or the same for all, (1,h,b), "
                f"got {list(x.shape)}."
            )


def _check_index(index: Tensor, V: int) -> None:
    if index.dim() != 2 or index.is_floating_point() or index.dtype == torch.bool:
        raise ShapeError(f"{OP}: index must be (B,T) integers, got {list(index.shape)} {index.dtype}.")
    if hidden(index) or index.numel() == 0:
        return
    low, high = (int(x) for x in index.aminmax())
    if low < 0 or high >= V:
        raise Error(
            f"{OP}: index must be at least 0 and below V = {V}, the rows of the tables, got {low if low < 0 else high}."
        )


def _edges(cu_seqlens: Tensor, T: int) -> bool:
    if hidden(cu_seqlens):
        return True
    found = cu_seqlens.tolist()
    return len(found) > 1 and found[0] == 0 and found[-1] == T and found == sorted(found)
