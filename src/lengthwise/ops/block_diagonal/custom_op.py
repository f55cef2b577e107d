"""The forward and the backward pass as two operators that torch.compile does not look into: a graph of T steps would be
of no use.

A gradient that is not needed is an empty tensor here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .passes import gradients_of, states_of

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
