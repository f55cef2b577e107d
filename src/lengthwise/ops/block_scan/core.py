"""States, and gradients from what was kept, of a whole call: by compiled loops, or part by part, the K chunks and the
rest.

Shapes: as in the package; S states to begin from, K chunks to a row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import chunked, compiled, sequential
from .gradients import before, of_starts, of_table
from .sequential import begins_of
from .steps import Part, Steps

COMPILED = 0
"""In place of a number of chunks."""


def parts(T: int, chunks: int) -> list[Part]:
    """K chunks of equal length, and the rest."""
    C = T // chunks
    found = [Part(0, chunks, C)]
    return found if chunks * C == T else [*found, Part(chunks * C, 1, T - chunks * C)]


def states_of(A, v, start, rows, index, chunks: int) -> tuple[Tensor, Tensor]:
    """The states (B,T,h,b), and P (B K h,b,b), of no rows without chunks."""
    given = v if index is None else index
    (B, T), (h, b), kind = given.shape[:2], v.shape[-2:], start.dtype
    P = start.new_empty(0, b, b)
    if chunks == COMPILED:
        return compiled.states_of(A, v, start, rows, index), P
    states = start.new_empty(B, T, h, b)
    x = start.flatten(0, 1).unsqueeze(-1) if rows is None else start.new_zeros(B * h, b, 1)
    for part in parts(T, chunks):
        steps, begins = Steps(A, index, kind, part), begins_of(rows, start, part)
        if steps.tokens is None:
            out = part.take(v).to(kind, copy=True, memory_format=torch.contiguous_format)
        else:
            out = v.index_select(0, steps.tokens.flatten()).to(kind)
        out = out.view(part.length, steps.N, b, 1)
        if part.chunks == 1:
            sequential.forward(steps, out, x, begins)
        else:
            P = chunked.forward(steps, out, x, begins).flatten(0, 2)
        out = out.view(part.length, B, part.chunks, h, b)
        part.take(states).copy_(out)
        x = out[-1, :, -1].reshape(B * h, b, 1)
    return states, P


def gradients_of(g, A, start, rows, index, states, P, needs: list[bool], loops: bool) -> tuple[Tensor | None, ...]:
    """Those of A, v and start that are needed; by compiled loops or not."""
    (B, _, h, b), g = g.shape, g.to(start.dtype)
    if loops:
        lam, after, dA = compiled.adjoint_of(g, A, start, rows, index, states, outer=needs[0])
    else:
        (lam, after), dA = _adjoint(g, A, start, rows, index, P), None
    dv = dstart = None
    if needs[0] and dA is None:
        x = before(states, start, rows)
        dA = lam.unsqueeze(-1) * x.unsqueeze(-2) if index is None else of_table(lam, x, index, len(A))
    if needs[1]:
        dv = lam if index is None else lam.new_zeros(len(A), h, b).index_add_(0, index.flatten(), lam.flatten(0, 1))
    if needs[2]:
        dstart = after.view(B, h, b) if rows is None else of_starts(A, index, lam, start, rows)
    return dA, dv, dstart


def _adjoint(g, A, start, rows, index, P) -> tuple[Tensor, Tensor]:
    """λ (B,T,h,b), and what the states before the rows get."""
    B, T, h, b = g.shape
    chunks = max(1, len(P) // (B * h))
    lam, after = g.new_empty(g.shape), g.new_zeros(B * h, b, 1)
    for part in reversed(parts(T, chunks)):
        steps, begins = Steps(A, index, g.dtype, part), begins_of(rows, start, part)
        out = part.take(g).clone(memory_format=torch.contiguous_format).view(part.length, steps.N, b, 1)
        if part.chunks == 1:  # the last part: nothing comes after it
            after = sequential.backward(steps, out, begins)
        else:
            after = chunked.backward(steps, out, begins, P.view(B, chunks, h, b, b), after)
        part.take(lam).copy_(out.view(part.length, B, part.chunks, h, b))
    return lam, after
