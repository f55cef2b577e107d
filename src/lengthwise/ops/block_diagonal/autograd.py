"""The torch and the numba kernel made differentiable, once, by the adjoint of the scan.

Kept for the backward pass are A itself, the states, and of chunks their products, one for all their tokens.

Shapes: as in the package.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from math import isqrt
from typing import Any

import torch
from torch import Tensor

from ...errors import Error
from ..adjoint import with_adjoint
from ..kernels import Op
from ..ranks import Ranks
from ..split_scan import split_scan, times
from . import eager, numba
from .call import NAME, ScanCall
from .eager import WIDEST, Steps, number_of_chunks, parts, products

# From λ to gradients: an outer product at every token, for a table summed over the tokens that read a row.
#
#     dA_t = λ_t x_{t-1}^T       dA[i] = Σ_{t: index_t = i} λ_t x_{t-1}^T        dstart = Σ A_t^T λ_t where a row begins
#
# Shapes: as in the package; S states to begin from, M = B T tokens.

READERS = 16
"""With fewer tokens to a row of the table than this, and on a GPU, outer products are added one by one, else they are
one product."""
SLAB, SLAB_GPU = 2**18, 2**26
"""Numbers of outer products at a time."""


def states_before(states: Tensor, start: Tensor, start_row: Tensor | None) -> Tensor:
    """x_{t-1} (B,T,h,b)."""
    if start_row is None:
        return torch.cat([start[:, None], states[:, :-1]], 1)
    x = states.roll(1, 1)
    row, t = (start_row >= 0).nonzero(as_tuple=True)
    x[row, t] = start[start_row[row, t]]
    return x


def of_starts(A: Tensor, index: Tensor | None, lam: Tensor, start: Tensor, start_row: Tensor) -> Tensor:
    """(S,h,b)"""
    row, t = (start_row >= 0).nonzero(as_tuple=True)
    A = (A[row, t] if index is None else A[index[row, t]]).to(lam.dtype)
    each = (A.mT @ lam[row, t].unsqueeze(-1)).squeeze(-1)
    return torch.zeros_like(start).index_add_(0, start_row[row, t], each)


def of_table(lam: Tensor, x: Tensor, index: Tensor, V: int) -> Tensor:
    """(V,h,b,b) of λ and x_{t-1} (B,T,h,b)."""
    lam, x, index = lam.flatten(0, 1), x.flatten(0, 1), index.flatten()
    h, b = lam.shape[1:]
    dA = lam.new_zeros(V, h, b, b)
    # A GPU is not waited for to see how often a row is read.
    counts = torch.bincount(index, minlength=V) if lam.device.type == "cpu" else None
    if counts is None or len(index) < READERS * int((counts > 0).sum()):
        size = max(1, (SLAB if counts is not None else SLAB_GPU) // (h * b * b))
        for at, y, z in zip(index.split(size), lam.split(size), x.split(size), strict=True):
            dA.index_add_(0, at, y.unsqueeze(-1) * z.unsqueeze(-2))
        return dA
    order = index.argsort()
    by_row = (part.index_select(0, order).split(counts.tolist()) for part in (lam, x))
    for out, y, z in zip(dA, *by_row, strict=True):
        if len(y):
            torch.bmm(y.permute(1, 2, 0), z.transpose(0, 1), out=out)
    return dA


# The forward and the backward pass of a whole call.
#
# They take flat tensors, for so autograd and torch.compile hand them over. `kernel` is "numba" or "torch"; `chunks` is
# how many the latter cuts a row into; None for the number that should be fastest.
#
# Shapes: as in the package; K chunks to a row.


def states_of(A, v, start, start_row, index, kernel: str, chunks: int | None) -> tuple[Tensor, Tensor]:
    """The states (B,T,h,b), and the products of each chunk's transitions (B K h,b,b), none where nothing is cut."""
    call = ScanCall(A, v, start, start_row, index)
    if kernel == "numba":
        return numba.states_of(call), start.new_empty(0, *A.shape[-2:])
    # Chosen here where the caller has not: a stack makes the batch wider.
    return eager.states_of(call, number_of_chunks(v, index) if chunks is None else chunks)


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


def _kept(A, v, start, start_row, index, kernel, chunks):
    return (A, start, start_row, index), (kernel,)


def _shapes(A, v, start, start_row, index, kernel, chunks):
    B, T = (v if index is None else index).shape[:2]
    h, b = v.shape[-2:]
    return start.new_empty(B, T, h, b), start.new_empty(B * chunks * h if chunks > 1 else 0, b, b)


def _gradient_shapes(g, A, start, start_row, index, states, products, kernel, needs):
    shapes = (A.shape, A.shape[:-1], start.shape)
    return tuple(g.new_empty(shape if need else (0,)) for shape, need in zip(shapes, needs, strict=False))


def _folded(function, info, in_dims, arguments):
    """Returns what `function` gives for each of the N stacked inputs; each has all to itself."""
    N = info.batch_size
    names = inspect.signature(function.forward).parameters
    inputs, dims = dict(zip(names, arguments, strict=True)), dict(zip(names, in_dims, strict=True))
    flat = {}
    for name, x in inputs.items():
        if isinstance(x, Tensor):
            x = x.expand(N, *x.shape) if dims[name] is None else x.movedim(dims[name], 0)
            flat[name] = x.flatten(0, 1)
        else:
            flat[name] = x
    if inputs["index"] is not None:
        flat["index"] = _shifted(flat["index"], N, len(flat["A"]) // N)
    if inputs["start_row"] is not None:
        row = flat["start_row"]
        flat["start_row"] = torch.where(row < 0, row, _shifted(row, N, len(flat["start"]) // N))
    outputs = function.apply(*flat.values())
    unfolded = tuple(None if x is None else x.view(N, len(x) // N, *x.shape[1:]) for x in outputs)
    return unfolded, tuple(None if x is None else 0 for x in outputs)


def _shifted(rows: Tensor, N: int, count: int) -> Tensor:
    """Row numbers (N B,T) of tables that now lie end to end, `count` rows for each of the N."""
    offset = torch.arange(N, device=rows.device).view(N, 1, 1) * count
    return (rows.unflatten(0, (N, -1)) + offset).flatten(0, 1)


_scan = with_adjoint(
    NAME,
    states_of,
    gradients_of,
    _kept,
    schemas=(
        "(Tensor A, Tensor v, Tensor start, Tensor? start_row, Tensor? index, str kernel, SymInt chunks) "
        "-> (Tensor, Tensor)",
        "(Tensor g, Tensor A, Tensor start, Tensor? start_row, Tensor? index, Tensor states, Tensor products, "
        "str kernel, bool[] needs) -> (Tensor, Tensor, Tensor)",
    ),
    shapes=(_shapes, _gradient_shapes),
    fold=_folded,
)


def by_torch(call: ScanCall, chunks: int | None = None) -> Tensor:
    """States (B,T,h,b). chunks: how many to cut a row into; None for the number that should be fastest."""
    if call.v.shape[1] == 1 and call.index is None and call.start_row is None and not torch.is_grad_enabled():
        return eager.one_step(call)
    if torch.compiler.is_compiling() and chunks is None:
        chunks = number_of_chunks(call.v, call.index)
    # Unpacked here: autograd and torch.compile see tensors only where each is an argument.
    return _scan(call.A, call.v, call.start, call.start_row, call.index, "torch", chunks)[0]


def by_numba(call: ScanCall) -> Tensor:
    """States (B,T,h,b)."""
    return _scan(call.A, call.v, call.start, call.start_row, call.index, "numba", 1)[0]


# The scan of one rank's piece of a sequence, for `split_scan.py`: its states, its transfer P and z, and its gradients.
#
# P and z are made in chunks side by side, which are then composed, for their steps are small products.
#
# Shapes: as in the package; K chunks to a row, C tokens each.


@dataclass(frozen=True)
class Blocks:
    """Inputs: A, v and the index or None, as in `ScanCall`."""

    kernel: str

    def states(self, start: Tensor, *inputs: Any) -> tuple[Tensor, Tensor]:
        A, v, index = inputs
        if (v if index is None else index).shape[1] == 0:
            return start.new_empty(len(start), 0, *start.shape[1:]), start.new_empty(0)
        return states_of(A, v, start, None, index, self.kernel, None)

    def transfer(self, start: Tensor, *inputs: Any) -> tuple[Tensor, Tensor]:
        A, v, index = inputs
        (B, h, b), T = start.shape, (v if index is None else index).shape[1]
        P, z = self.identity(start), torch.zeros_like(start)
        if T == 0:
            return P, z
        for part in parts(T, max(1, min(isqrt(T), WIDEST // max(1, B * h * b * b)))):
            steps = Steps(A, index, start.dtype, part)
            added = part.take(v) if index is None else v.index_select(0, part.take(index).flatten())
            added = added.to(start.dtype).reshape(part.length, steps.N, b, 1)
            P_of, z_of = products(steps, added, {})
            chunks = zip(P_of.view(B, -1, h, b, b).unbind(1), z_of.view(B, -1, h, b).unbind(1), strict=True)
            for P_k, z_k in chunks:
                P, z = P_k @ P, times(P_k, z) + z_k
        return P, z

    def gradients(
        self, g: Tensor, states: Tensor, saved: Any, needs: list[bool], start: Tensor, *inputs: Any
    ) -> tuple[Tensor | None, ...]:
        A, v, index = inputs
        of_start, of_A, of_v, _ = needs
        flags = [of_A, of_v, of_start]
        dA, dv, dstart = gradients_of(g, A, start, None, index, states, saved, self.kernel, flags)
        return dstart, None if dA is None else dA.to(A.dtype), None if dv is None else dv.to(v.dtype), None

    def identity(self, start: Tensor) -> Tensor:
        b = start.shape[-1]
        return torch.eye(b, dtype=start.dtype, device=start.device).expand(*start.shape, b).contiguous()


def over_ranks(op: Op[ScanCall], call: ScanCall, ranks: Ranks, backend: str) -> tuple[Tensor, Tensor]:
    """The states of this rank's piece, and the last of them."""
    kernel = op.choose(call, backend).name if call.batch[1] else "torch"
    if kernel not in ("torch", "numba"):
        raise Error(f"{NAME}: over ranks runs the torch or the numba kernel, got {kernel!r}. Use 'auto'.")
    return split_scan(Blocks(kernel), ranks, call.start, call.A, call.v, call.index)
