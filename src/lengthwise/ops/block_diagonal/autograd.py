"""The torch and the numba kernel made differentiable, once, by the adjoint of the scan.

Kept for the backward pass are A itself, the states, and of chunks their products, one for all their tokens.

Shapes: as in the package.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...errors import Error
from . import custom_op, sequential
from .call import NAME, Call
from .eager import number_of_chunks
from .passes import gradients_of, states_of


def by_torch(call: Call, chunks: int | None = None) -> Tensor:
    """States (B,T,h,b). chunks: how many to cut a row into; None for the number that should be fastest."""
    if call.v.shape[1] == 1 and call.index is None and call.start_row is None and not torch.is_grad_enabled():
        return sequential.one_step(call)
    return _scan(call, "torch", chunks)


def by_numba(call: Call) -> Tensor:
    """States (B,T,h,b)."""
    return _scan(call, "numba", 1)


def _scan(call: Call, kernel: str, chunks: int | None) -> Tensor:
    # Unpacked here: autograd and torch.compile see tensors only where each is an argument.
    flat = call.A, call.v, call.start, call.start_row, call.index
    if torch.compiler.is_compiling():
        chunks = number_of_chunks(call.v, call.index) if chunks is None else chunks
        return custom_op.scan(*flat, kernel, chunks)[0]
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
        gradients = Adjoint.apply(grad_outputs[0], *ctx.saved_tensors, ctx.kernel, ctx.needs_input_grad[:3])
        cast = (None if x is None else x.to(dtype) for x, dtype in zip(gradients, ctx.dtypes, strict=True))
        return *cast, None, None, None, None

    @staticmethod
    def vmap(info, in_dims, *inputs):
        names = ("A", "v", "start", "start_row", "index", "kernel", "chunks")
        return _folded(Scan, info, in_dims, dict(zip(names, inputs, strict=True)))


class Adjoint(torch.autograd.Function):
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
        return _folded(Adjoint, info, in_dims, dict(zip(names, inputs, strict=True)))


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
