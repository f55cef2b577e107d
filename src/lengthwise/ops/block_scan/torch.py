"""The fast form: the loop with its own adjoint, compiled where that can be, else in chunks side by side where a row is
long and the batch narrow.

Kept for the backward pass are A itself, the states, and of chunks their products, one for all their tokens.

Shapes: as in the package; S states to begin from, K chunks to a row.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ...errors import Error
from . import compiled, opaque
from .core import COMPILED, gradients_of, states_of
from .inputs import OP
from .stacked import folded

AUTO = -1
SHORT, LONG, NARROW, WIDEST = 500, 1000, 128, 2**18
"""Chunks pay up to NARROW numbers in the state of the whole batch, and four times that where torch has a second thread,
for it is products that threads share; there from LONG tokens on, and from fewer the fewer the numbers are. CPU ms
without and with, forward and backward, b = 8. One thread, B h b = 64: 12 and 10 for T = 500, 76 and 33 for 4,000; 128:
28 and 22 for 1,000; but 256: 27 and 30 for 1,000. Two: 256: 31 and 23 for 1,000, 122 and 77 for 4,000; 512: 111 and 70
for 2,000; 1,024: 83 and 73 for 1,000; but 2,048: 145 and 179. A step then has WIDEST numbers at most."""


def fast(
    A: Tensor, v: Tensor, start: Tensor, rows: Tensor | None, index: Tensor | None, chunks: int | None = None
) -> Tensor:
    """As `reference`. chunks: K, 1 for none; None for the fastest of torch's; COMPILED; AUTO for the fastest."""
    if torch.compiler.is_compiling():
        return opaque.scan(A, v, start, rows, index, way(A, v, start, index, chunks))[0]
    return Scan.apply(A, v, start, rows, index, chunks)[0]


def by_numba(A: Tensor, v: Tensor, start: Tensor, rows: Tensor | None, index: Tensor | None) -> Tensor:
    if why := compiled.refused(A):
        raise Error(f"{OP}: backend 'numba' cannot run, for {why}. Use 'auto' or 'torch'.")
    return fast(A, v, start, rows, index, COMPILED)


def way(A: Tensor, v: Tensor, start: Tensor, index: Tensor | None, chunks: int | None) -> int:
    """K or COMPILED."""
    if chunks == AUTO:
        B, T = (v if index is None else index).shape[:2]
        large = B * T * start.shape[-2] * start.shape[-1] >= compiled.LEAST
        chunks = COMPILED if large and not compiled.refused(A) else None
    return chosen(v, index) if chunks is None else chunks


def chosen(v: Tensor, index: Tensor | None) -> int:
    """K: about √(8T), for there are two loops over K and four over T/K, while a step's blocks fit into a cache."""
    B, T = (v if index is None else index).shape[:2]
    h, b = v.shape[-2:]
    # A graph being made cannot ask for the number of threads.
    alone = torch.compiler.is_compiling() or torch.get_num_threads() == 1
    wide = B * h * b / (NARROW if alone else 4 * NARROW)
    if wide > 1 or max(SHORT, wide * LONG) > T:
        return 1
    return max(1, min(int(math.sqrt(8 * T)), WIDEST // max(1, B * h * b * b)))


class Scan(torch.autograd.Function):
    @staticmethod
    def forward(A, v, start, rows, index, chunks):
        return states_of(A, v, start, rows, index, way(A, v, start, index, chunks))

    @staticmethod
    def setup_context(ctx: Any, inputs, output):
        A, v, start, rows, index, chunks = inputs
        states, P = output
        ctx.mark_non_differentiable(P)
        ctx.save_for_backward(A, start, rows, index, states, P)
        ctx.kinds, ctx.loops = (A.dtype, v.dtype, start.dtype), way(A, v, start, index, chunks) == COMPILED

    @staticmethod
    def backward(ctx: Any, *grad_outputs):  # pyright: ignore[reportIncompatibleMethodOverride]
        found = Adjoint.apply(grad_outputs[0], *ctx.saved_tensors, ctx.needs_input_grad[:3], ctx.loops)
        gradients = (None if x is None else x.to(kind) for x, kind in zip(found, ctx.kinds, strict=True))
        return *gradients, None, None, None

    @staticmethod
    def vmap(info, in_dims, *inputs):
        names = ("A", "v", "start", "rows", "index", "chunks")
        return folded(Scan, info, in_dims, dict(zip(names, inputs, strict=True)))


class Adjoint(torch.autograd.Function):
    """A function of its own, so that it can be mapped by itself, as in vmap of grad."""

    @staticmethod
    def forward(g, A, start, rows, index, states, P, needs, loops):
        return gradients_of(g, A, start, rows, index, states, P, needs, loops)

    @staticmethod
    def setup_context(ctx: Any, inputs, output):
        pass

    @staticmethod
    def backward(ctx: Any, *grad_outputs):
        raise Error(f"{OP}: the fast form is differentiable once, and was asked for more. Use backend='reference'.")

    @staticmethod
    def vmap(info, in_dims, *inputs):
        names = ("g", "A", "start", "rows", "index", "states", "P", "needs", "loops")
        return folded(Adjoint, info, in_dims, dict(zip(names, inputs, strict=True)))
