"""The torch and the numba kernel made differentiable, once, by the adjoint of the scan.

Kept for the backward pass are A itself, the states, and of chunks their products, one for all their tokens.

Shapes: as in the package.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...errors import Error
from . import eager, numba
from .call import NAME, ScanCall
from .eager import number_of_chunks

# From λ to gradients: an outer product at every token, for a table summed over the tokens that read a row.
#
#     dA_t = λ_t x_{t-1}^T       dA[i] = Σ_{t: index_t = i} λ_t x_{t-1}^T        dstart = Σ A_t^T λ_t where a row begins
#
# Shapes: as in the package; S states to begin from, M = B T tokens.

READERS = 16
"""With fewer tokens to a row of the table than this, outer products are added one by one, else they are one product."""
SLAB = 2**18
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
    counts = torch.bincount(index, minlength=V)
    if len(index) < READERS * int((counts > 0).sum()):
        size = max(1, SLAB // (h * b * b))
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
# how many the latter cuts a row into.
#
# Shapes: as in the package; K chunks to a row.


def states_of(A, v, start, start_row, index, kernel: str, chunks: int) -> tuple[Tensor, Tensor]:
    """The states (B,T,h,b), and the products of each chunk's transitions (B K h,b,b), none where nothing is cut."""
    call = ScanCall(A, v, start, start_row, index)
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


# The forward and the backward pass as two operators that torch.compile does not look into: a graph of T steps would be
# of no use.
#
# A gradient that is not needed is an empty tensor here.

_SCAN = (
    "(Tensor A, Tensor v, Tensor start, Tensor? start_row, Tensor? index, str kernel, SymInt chunks) "
    "-> (Tensor, Tensor)"
)
_ADJOINT = (
    "(Tensor g, Tensor A, Tensor start, Tensor? start_row, Tensor? index, Tensor states, Tensor products, str kernel, "
    "bool[] needs) -> (Tensor, Tensor, Tensor)"
)

scan = torch.library.custom_op("lengthwise::block_scan", states_of, mutates_args=(), schema=_SCAN)


@torch.library.custom_op("lengthwise::block_scan_adjoint", mutates_args=(), schema=_ADJOINT)
def adjoint(g, A, start, start_row, index, states, products, kernel, needs):
    gradients = gradients_of(g, A, start, start_row, index, states, products, kernel, needs)
    return tuple(g.new_empty(0) if x is None else x for x in gradients)


@scan.register_fake
def _(A, v, start, start_row, index, kernel, chunks):
    B, T = (v if index is None else index).shape[:2]
    h, b = v.shape[-2:]
    return start.new_empty(B, T, h, b), start.new_empty(B * chunks * h if chunks > 1 else 0, b, b)


@adjoint.register_fake
def _(g, A, start, start_row, index, states, products, kernel, needs):
    shapes = (A.shape, A.shape[:-1], start.shape)
    return tuple(g.new_empty(shape if needed else (0,)) for shape, needed in zip(shapes, needs, strict=True))


def _keep(ctx: Any, inputs, output) -> None:
    A, v, start, start_row, index, ctx.kernel, _ = inputs
    ctx.save_for_backward(A, start, start_row, index, *output)
    ctx.dtypes = A.dtype, v.dtype, start.dtype


def _backward(ctx: Any, g: Tensor, _):
    needs = list(ctx.needs_input_grad[:3])
    gradients = adjoint(g, *ctx.saved_tensors, ctx.kernel, needs)
    cast = (x.to(dtype) if need else None for x, dtype, need in zip(gradients, ctx.dtypes, needs, strict=True))
    return *cast, None, None, None, None


scan.register_autograd(_backward, setup_context=_keep)


def by_torch(call: ScanCall, chunks: int | None = None) -> Tensor:
    """States (B,T,h,b). chunks: how many to cut a row into; None for the number that should be fastest."""
    if call.v.shape[1] == 1 and call.index is None and call.start_row is None and not torch.is_grad_enabled():
        return eager.one_step(call)
    return _scan(call, "torch", chunks)


def by_numba(call: ScanCall) -> Tensor:
    """States (B,T,h,b)."""
    return _scan(call, "numba", 1)


def _scan(call: ScanCall, kernel: str, chunks: int | None) -> Tensor:
    # Unpacked here: autograd and torch.compile see tensors only where each is an argument.
    flat = call.A, call.v, call.start, call.start_row, call.index
    if torch.compiler.is_compiling():
        chunks = number_of_chunks(call.v, call.index) if chunks is None else chunks
        return scan(*flat, kernel, chunks)[0]
    return Scan.apply(*flat, kernel, chunks)[0]


class Scan(torch.autograd.Function):
    @staticmethod
    def forward(A, v, start, start_row, index, kernel, chunks):
        # Chosen here and not by the caller: a stack makes the batch wider.
        chunks = number_of_chunks(v, index) if chunks is None else chunks
        return states_of(A, v, start, start_row, index, kernel, chunks)

    @staticmethod
    def setup_context(ctx: Any, inputs, output):
        A, v, start, start_row, index, ctx.kernel, _ = inputs
        states, products = output
        ctx.mark_non_differentiable(products)
        ctx.save_for_backward(A, start, start_row, index, states, products)
        ctx.dtypes = A.dtype, v.dtype, start.dtype

    @staticmethod
    def backward(ctx: Any, *grad_outputs):  # pyright: ignore[reportIncompatibleMethodOverride]
        gradients = ScanAdjoint.apply(grad_outputs[0], *ctx.saved_tensors, ctx.kernel, ctx.needs_input_grad[:3])
        cast = (None if x is None else x.to(dtype) for x, dtype in zip(gradients, ctx.dtypes, strict=True))
        return *cast, None, None, None, None

    @staticmethod
    def vmap(info, in_dims, *inputs):
        names = ("A", "v", "start", "start_row", "index", "kernel", "chunks")
        return _folded(Scan, info, in_dims, dict(zip(names, inputs, strict=True)))


class ScanAdjoint(torch.autograd.Function):
    """A function of its own, so that it can be mapped by itself, as in vmap of grad."""

    @staticmethod
    def forward(g, A, start, start_row, index, states, products, kernel, needs):
        return gradients_of(g, A, start, start_row, index, states, products, kernel, needs)

    @staticmethod
    def setup_context(ctx: Any, inputs, output):
        pass

    @staticmethod
    def backward(ctx: Any, *grad_outputs):
        raise Error(
            f"{NAME}: the torch and the numba kernel are differentiable once, and were asked for more. "
            "Use backend='reference'."
        )

    @staticmethod
    def vmap(info, in_dims, *inputs):
        names = ("g", "A", "start", "start_row", "index", "states", "products", "kernel", "needs")
        return _folded(ScanAdjoint, info, in_dims, dict(zip(names, inputs, strict=True)))


def _folded(function, info, in_dims, inputs: dict):
    """What `function` gives for each of the N stacked inputs, by name as it takes them; each has all to itself."""
    N = info.batch_size
    dims = dict(zip(inputs, in_dims, strict=True))
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
