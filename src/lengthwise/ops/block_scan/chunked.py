"""Chunks side by side.

What a chunk does to the state before it is known once its transitions are multiplied, P = A_{C-1} … A_0, which costs b
times what the steps of a state cost. Then a short scan goes over the ends of chunks, and all are filled in at once; the
adjoint the same with P^T.

Shapes: as in `steps.py`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import sequential
from .sequential import Begins, outcome, products
from .steps import Part, Steps


def forward(steps: Steps, x: Tensor, before: Tensor, begins: Begins) -> Tensor:
    """As in `sequential.py`, before (B h,b,1) being that of the first chunks. Returned is P (B,K,h,b,b)."""
    K, b = steps.part.chunks, steps.width
    P, u = products(steps, x, begins)
    h = steps.token // b
    P, ends = P.view(-1, K, h, b, b), _by_chunk(u, K, h)
    sequential.forward(over(P), ends, before, {})
    entering = torch.cat([before[None], ends[:-1]])
    sequential.forward(steps, x, _by_row(entering, h), begins)
    return P


def backward(steps: Steps, g: Tensor, begins: Begins, P: Tensor, after: Tensor) -> Tensor:
    """As in `sequential.py`; after (B h,b,1) is what the last state of the last chunks gets from tokens after them."""
    K, h = P.shape[1], P.shape[2]
    out = _by_chunk(outcome(steps, g, begins), K, h)
    get = torch.cat([out[1:], after[None]])
    sequential.backward(over(P), get, {})
    g[-1] += _by_row(get, h)
    return _by_chunk(sequential.backward(steps, g, begins), K, h)[0]


def over(P: Tensor) -> Steps:
    return Steps(P, None, P.dtype, Part(0, 1, P.shape[1]))


def _by_chunk(x: Tensor, K: int, h: int) -> Tensor:
    """(B K h,b,1) -> (K,B h,b,1)"""
    return x.unflatten(0, (-1, K, h)).transpose(0, 1).flatten(1, 2).contiguous()


def _by_row(x: Tensor, h: int) -> Tensor:
    """The inverse of `_by_chunk`."""
    return x.unflatten(1, (-1, h)).transpose(0, 1).flatten(0, 2)
