"""One step after another, and the adjoint, one step before another, over all rows of the batch at once.

    x_t = A_t x_{t-1} + v_t             λ_t = g_t + A_{t+1}^T λ_{t+1}

λ_t is the gradient of v_t, and λ_t x_{t-1}^T that of A_t. Where a row begins a sequence x_{t-1} is a start, and λ goes
no further back.

Shapes: as in `steps.py`; x, v, g and λ are (C,N,b,1), a state (N,b,1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from .call import Call
from .steps import Part, Steps


class Begin(NamedTuple):
    """A step at which some rows begin sequences."""

    here: Tensor
    """(N,1,1) whether the block's row does."""
    start: Tensor
    """(N,b,1) from which state."""


Begins = Mapping[int, Begin]


def begins_of(start_row: Tensor | None, start: Tensor, part: Part) -> Begins:
    """By step. start_row (B,T) or None, and start (S,h,b), as in `Call`."""
    if start_row is None:
        return {}
    rows = part.take(start_row).flatten(1)
    begins = {}
    for t in (rows >= 0).any(1).nonzero().flatten().tolist():
        here = (rows[t] >= 0).repeat_interleave(start.shape[1])
        begins[t] = Begin(here.view(-1, 1, 1), start[rows[t].clamp(min=0)].flatten(0, 1).unsqueeze(-1))
    return begins


def forward(steps: Steps, x: Tensor, before: Tensor, begins: Begins) -> None:
    """x holds v and is overwritten by the states; before is the state each row goes on from."""
    add, transitions = steps.forward()
    for t, (x_t, M) in enumerate(zip(x.unbind(0), transitions, strict=True)):
        if t in begins:
            before = torch.where(*begins[t], before)
        before = add(x_t, M, before)


def one_step(call: Call) -> Tensor:
    """The state (B,1,h,b) after one token of each row, as `forward` computes it, without what a loop needs."""
    (h, b), dtype = call.v.shape[-2:], call.start.dtype
    A, v = call.A.to(dtype).reshape(-1, b, b), call.v.to(dtype).reshape(-1, b, 1)
    return torch.baddbmm(v, A.contiguous(), call.start.reshape(-1, b, 1)).view(-1, 1, h, b)


def backward(steps: Steps, g: Tensor, begins: Begins) -> Tensor:
    """g is overwritten by λ. Returned is what the state before the first step gets."""
    add, transitions = steps.adjoint()
    first = torch.zeros_like(g[0])
    *earlier, lam = first, *g.unbind(0)
    for t, M in zip(reversed(range(len(g))), transitions, strict=True):
        if t in begins:
            lam = lam.masked_fill(begins[t].here, 0.0)
        lam = add(earlier[t], M, lam)
    return first


def gradient_before(steps: Steps, g: Tensor, begins: Begins) -> Tensor:
    """What `backward` returns, with g left as it is."""
    add, transitions = steps.adjoint()
    lam = g[-1]
    for t, M in zip(reversed(range(len(g))), transitions, strict=True):
        if t in begins:
            lam = lam.masked_fill(begins[t].here, 0.0)
        lam = add(g[t - 1].clone() if t else torch.zeros_like(lam), M, lam)
    return lam


def products(steps: Steps, v: Tensor, begins: Begins) -> tuple[Tensor, Tensor]:
    """P = A_{C-1} … A_0 (N,b,b), and the last state from zero: what a whole row does to a state."""
    N, b = steps.N, steps.width
    both = torch.eye(b, b + 1, dtype=v.dtype, device=v.device).repeat(N, 1, 1)
    other = torch.empty_like(both)
    for t, A_t in enumerate(steps.blocks()):
        if t in begins:
            here, start = begins[t]
            both = torch.where(here, torch.cat([start.new_zeros(N, b, b), start], -1), both)
        torch.bmm(A_t, both, out=other)
        other[..., b:] += v[t]
        both, other = other, both
    return both[..., :b].contiguous(), both[..., b:]
