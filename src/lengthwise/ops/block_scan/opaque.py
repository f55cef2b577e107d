"""The fast form as two operators that torch.compile does not look into: a graph of T steps would be of no use.

What is not needed, or does not exist, is an empty tensor here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .core import COMPILED, gradients_of, states_of

_SCAN = "(Tensor A, Tensor v, Tensor start, Tensor? rows, Tensor? index, SymInt chunks) -> (Tensor, Tensor)"
_ADJOINT = (
    "(Tensor g, Tensor A, Tensor start, Tensor? rows, Tensor? index, Tensor states, Tensor P, bool[] needs, "
    "bool loops) -> (Tensor, Tensor, Tensor)"
)

scan = torch.library.custom_op("lengthwise::block_scan", states_of, mutates_args=(), schema=_SCAN)


@torch.library.custom_op("lengthwise::block_scan_adjoint", mutates_args=(), schema=_ADJOINT)
def adjoint(g, A, start, rows, index, states, P, needs, loops):
    found = gradients_of(g, A, start, rows, index, states, P, needs, loops)
    return tuple(g.new_empty(0) if x is None else x for x in found)


@scan.register_fake
def _(A, v, start, rows, index, chunks):
    B, T = (v if index is None else index).shape[:2]
    h, b = v.shape[-2:]
    return start.new_empty(B, T, h, b), start.new_empty(B * chunks * h if chunks > 1 else 0, b, b)


@adjoint.register_fake
def _(g, A, start, rows, index, states, P, needs, loops):
    shapes = (A.shape, A.shape[:-1], start.shape)
    return tuple(g.new_empty(shape if needed else (0,)) for shape, needed in zip(shapes, needs, strict=True))


def _keep(ctx: Any, inputs, output) -> None:
    A, v, start, rows, index, chunks = inputs
    ctx.save_for_backward(A, start, rows, index, *output)
    ctx.kinds, ctx.loops = (A.dtype, v.dtype, start.dtype), chunks == COMPILED


def _backward(ctx: Any, g: Tensor, _):
    needs = list(ctx.needs_input_grad[:3])
    found = adjoint(g, *ctx.saved_tensors, needs, ctx.loops)
    gradients = (x.to(kind) if need else None for x, kind, need in zip(found, ctx.kinds, needs, strict=True))
    return *gradients, None, None, None


scan.register_autograd(_backward, setup_context=_keep)
