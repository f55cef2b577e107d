"""The scan by torch's operators, and its adjoint: one token after another, or, where rows are long and the batch is
narrow, in chunks side by side.

Shapes: as in the package; K chunks to a row.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from . import chunked, sequential
from .call import Call
from .sequential import begins_of
from .steps import Part, Steps

SHORT, LONG, NARROW, WIDEST = 500, 1000, 128, 2**18
"""Chunks pay up to NARROW numbers in the state of the whole batch, and four times that where torch has a second thread,
for it is products that threads share; there from LONG tokens on, and from fewer the fewer the numbers are. CPU ms
without and with, forward and backward, b = 8. One thread, B h b = 64: 12 and 10 for T = 500, 76 and 33 for 4,000; 128:
28 and 22 for 1,000; but 256: 27 and 30 for 1,000. Two: 256: 31 and 23 for 1,000, 122 and 77 for 4,000; 512: 111 and 70
for 2,000; 1,024: 83 and 73 for 1,000; but 2,048: 145 and 179. A step then has WIDEST numbers at most."""


def number_of_chunks(v: Tensor, index: Tensor | None) -> int:
    """K: 1, or about √(8T) while a step's blocks fit into a cache, for two loops go over K and four over T/K."""
    B, T = (v if index is None else index).shape[:2]
    h, b = v.shape[-2:]
    # A graph being made cannot ask for the number of threads.
    alone = torch.compiler.is_compiling() or torch.get_num_threads() == 1
    wide = B * h * b / (NARROW if alone else 4 * NARROW)
    if wide > 1 or max(SHORT, wide * LONG) > T:
        return 1
    return max(1, min(int(math.sqrt(8 * T)), WIDEST // max(1, B * h * b * b)))


def parts(T: int, chunks: int) -> list[Part]:
    """K chunks of equal length, and the rest."""
    length = T // chunks
    whole = Part(0, chunks, length)
    return [whole] if chunks * length == T else [whole, Part(chunks * length, 1, T - chunks * length)]


def states_of(call: Call, chunks: int) -> tuple[Tensor, Tensor]:
    """The states (B,T,h,b), and the products of each chunk's transitions (B K h,b,b), none where nothing is cut."""
    (B, T), (h, b), start, dtype = call.batch, call.v.shape[-2:], call.start, call.start.dtype
    products = start.new_empty(0, b, b)
    states = start.new_empty(B, T, h, b)
    x = start.flatten(0, 1).unsqueeze(-1) if call.start_row is None else start.new_zeros(B * h, b, 1)
    for part in parts(T, chunks):
        steps, begins = Steps(call.A, call.index, dtype, part), begins_of(call.start_row, start, part)
        if steps.tokens is None:
            out = part.take(call.v).to(dtype, copy=True, memory_format=torch.contiguous_format)
        else:
            out = call.v.index_select(0, steps.tokens.flatten()).to(dtype)
        out = out.view(part.length, steps.N, b, 1)
        if part.chunks == 1:
            sequential.forward(steps, out, x, begins)
        else:
            products = chunked.forward(steps, out, x, begins).flatten(0, 2)
        out = out.view(part.length, B, part.chunks, h, b)
        part.take(states).copy_(out)
        x = out[-1, :, -1].reshape(B * h, b, 1)
    return states, products


def adjoint_of(g: Tensor, A: Tensor, start: Tensor, start_row, index, products: Tensor) -> tuple[Tensor, Tensor]:
    """λ (B,T,h,b), and what the states before the rows get, (B h,b,1)."""
    B, T, h, b = g.shape
    chunks = max(1, len(products) // (B * h))
    lam, after = g.new_empty(g.shape), g.new_zeros(B * h, b, 1)
    for part in reversed(parts(T, chunks)):
        steps, begins = Steps(A, index, g.dtype, part), begins_of(start_row, start, part)
        out = part.take(g).clone(memory_format=torch.contiguous_format).view(part.length, steps.N, b, 1)
        if part.chunks == 1:  # the last part: nothing comes after it
            after = sequential.backward(steps, out, begins)
        else:
            after = chunked.backward(steps, out, begins, products.view(B, chunks, h, b, b), after)
        part.take(lam).copy_(out.view(part.length, B, part.chunks, h, b))
    return lam, after
