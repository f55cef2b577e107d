"""Chunks side by side.

The product of a chunk's transitions, P = A_{C-1} … A_0, tells what the chunk does to the state before it; it costs b
times what the steps of a state cost. Then a short scan goes over the ends of chunks, and all chunks are filled in at
once. The adjoint does the same with P^T.

Shapes: as in `steps.py`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import sequential
from .sequential import Begins, gradient_before, products
from .steps import Part, Steps


def forward(steps: Steps, x: Tensor, before: Tensor, begins: Begins) -> Tensor:
    """As in `sequential.py`; before (B h,b,1) is the state before the first chunks. Returned is P (B,K,h,b,b)."""
    K, b = steps.part.chunks, steps.width
    P, u = products(steps, x, begins)
    h = steps.token // b
    P, ends = P.view(-1, K, h, b, b), _by_chunk(u, K, h)
    sequential.forward(_steps_over(P), ends, before, {})
    entering = torch.cat([before[None], ends[:-1]])
    sequential.forward(steps, x, _by_row(entering, h), begins)
    return P


def backward(steps: Steps, g: Tensor, begins: Begins, P: Tensor, after: Tensor) -> Tensor:
    """As in `sequential.py`; after (B h,b,1) is what the last state of the last chunks gets from tokens after them."""
    K, h = P.shape[1], P.shape[2]
    out = _by_chunk(gradient_before(steps, g, begins), K, h)
    of_ends = torch.cat([out[1:], after[None]])
    sequential.backward(_steps_over(P), of_ends, {})
    g[-1] += _by_row(of_ends, h)
    return _by_chunk(sequential.backward(steps, g, begins), K, h)[0]


def _steps_over(P: Tensor) -> Steps:
    """One step a chunk."""
    return Steps(P, None, P.dtype, Part(0, 1, P.shape[1]))


def _by_chunk(x: Tensor, K: int, h: int) -> Tensor:
    """(B K h,b,1) -> (K,B h,b,1)"""
    return x.unflatten(0, (-1, K, h)).transpose(0, 1).flatten(1, 2).contiguous()


def _by_row(x: Tensor, h: int) -> Tensor:
    """The inverse of `_by_chunk`."""
    return x.unflatten(1, (-1, h)).transpose(0, 1).flatten(0, 2)
