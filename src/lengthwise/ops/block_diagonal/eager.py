"""The scan by torch's operators, and its adjoint: one token after another, or, where rows are long and the batch is
narrow, in chunks side by side.

Shapes: as in the package; K chunks to a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .call import ScanCall

# The steps of the scan: token by token the transitions of all rows side by side, and the operation that applies them.
#
# A step works on N = B K h blocks. Those of one token lie together but those of rows apart, so A is copied a few tokens
# at a time into one tile, used again and again; a table is gathered in the same way. A product with A^T sums rows of A
# and needs no tile: `embedding_bag` reads rows where they lie. A table is transposed once, so that a product with A
# sums rows too.
#
# Shapes: K chunks to a row of the batch, side by side, C tokens each (1 and T where nothing is cut), N = B K h.

FITS, FITS_GPU = 2**18, 2**24
"""Numbers to a tile: on a CPU it stays in a cache, and a copy is long enough; on a GPU fewer launches count."""
BAGS = 64
"""From so many blocks on, sums of rows beat small products: 19 against 78 ns a block of 8×8 (1,024 of them)."""


class Part(NamedTuple):
    """The tokens from `first` on, in K chunks of C."""

    first: int
    chunks: int
    length: int

    def take(self, x: Tensor) -> Tensor:
        """(B,T,…) -> (C,B,K,…), a view."""
        x = x[:, self.first : self.first + self.chunks * self.length]
        return x.unflatten(1, (self.chunks, self.length)).movedim(2, 0)


Add = Callable[[Tensor, Any, Tensor], Tensor]
"""(x, M, y) -> x, to which A_t y or A_t^T y is added in place; M holds the transitions of step t."""


class Steps:
    def __init__(self, A: Tensor, index: Tensor | None, dtype: torch.dtype, part: Part):
        """A (B,T,h,b,b), or with index (B,T) a table (V,h,b,b)."""
        # For what requires a gradient embedding_bag would also note which row went where.
        self.A, self.part, self.dtype = A.detach(), part, dtype
        self.tokens = None if index is None else part.take(index).flatten(1).contiguous()
        B = A.shape[0] if index is None else index.shape[0]
        self.length, self.width, self.token = part.length, A.shape[-1], A.shape[-3] * A.shape[-1]
        self.N = B * part.chunks * A.shape[-3]
        fits = FITS if A.device.type == "cpu" else FITS_GPU
        self.tile = min(self.length, max(1, fits // max(1, self.N * self.width**2)))
        plain = A.device.type == "cpu" and A.dtype == dtype == torch.float32 and A.is_contiguous()
        self.bags = plain and self.N >= BAGS and A.numel() < 2**31

    def forward(self) -> tuple[Add, Iterator[Any]]:
        """Returns how A_t y is added, and the transitions of every step."""
        if self.bags and self.tokens is not None:
            return _add_sums, self._rows(self.A.mT.contiguous(), back=False)
        return Tensor.baddbmm_, self.blocks()

    def adjoint(self) -> tuple[Add, Iterator[Any]]:
        """Returns how A_t^T y is added, and the transitions of every step, the last step first."""
        if self.bags:
            return _add_sums, self._rows(self.A, back=True)
        return Tensor.baddbmm_, (A_t.mT for A_t in self.blocks(back=True))

    def blocks(self, *, back: bool = False) -> Iterator[Tensor]:
        """A_t (N,b,b) of every step, each only until the next is asked for."""
        place = self.A.new_empty(self.tile, self.N, self.width, self.width, dtype=self.dtype)
        A = self.part.take(self.A) if self.tokens is None else self.A.flatten(1)
        for a, z in self._spans(self.tile, back):
            tile = A[a:z] if self.tokens is None else A.index_select(0, self.tokens[a:z].flatten())
            if tile.dtype != self.dtype or not tile.is_contiguous():
                tile = place[: z - a].view(tile.shape).copy_(tile)
            yield from _ordered(tile.view(z - a, *place.shape[1:]), back)

    def _rows(self, A: Tensor, *, back: bool) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """For `_add_sums`, the rows of A where they lie."""
        rows, within = A.view(-1, self.width), torch.arange(self.token, dtype=torch.int32)
        bounds = torch.arange(0, self.N * self.width, self.width, dtype=torch.int32)
        if self.tokens is None:
            B, T = A.shape[:2]
            begin = torch.arange(0, B * T, T)[:, None] + torch.arange(self.part.chunks) * self.length
            at = torch.add(within, begin.int().unsqueeze(-1), alpha=self.token).flatten()
            for t in reversed(range(self.part.first, self.part.first + self.length)):
                yield rows[t * self.token :], at, bounds
            return
        tokens = self.tokens.int().unsqueeze(-1)
        for a, z in self._spans(max(1, FITS // max(1, len(bounds))), back):
            for at in _ordered(torch.add(within, tokens[a:z], alpha=self.token).flatten(1), back):
                yield rows, at, bounds

    def _spans(self, size: int, back: bool) -> Iterator[tuple[int, int]]:
        starts = range(0, self.length, size)
        return ((a, min(a + size, self.length)) for a in (reversed(starts) if back else starts))


def _ordered(x: Tensor, back: bool) -> Iterator[Tensor]:
    each = x.unbind(0)
    return reversed(each) if back else iter(each)


def _add_sums(x: Tensor, M: tuple[Tensor, Tensor, Tensor], y: Tensor) -> Tensor:
    """x_n += Σ_i y_ni rows[at_ni]; `bounds` has the first place in `at` of every block n."""
    rows, at, bounds = M
    return x.add_(torch.embedding_bag(rows, at, bounds, False, 0, False, y.reshape(-1))[0].unsqueeze(-1))


# One step after another, and the adjoint, one step before another, over all rows of the batch at once.
#
#     x_t = A_t x_{t-1} + v_t             λ_t = g_t + A_{t+1}^T λ_{t+1}
#
# λ_t is the gradient of v_t, and λ_t x_{t-1}^T that of A_t. Where a row begins a sequence x_{t-1} is a start, and λ
# goes no further back.
#
# Shapes: x, v, g and λ are (C,N,b,1), a state (N,b,1).


class Begin(NamedTuple):
    """A step at which some rows begin sequences."""

    here: Tensor
    """(N,1,1) whether the block's row does."""
    start: Tensor
    """(N,b,1) from which state."""


Begins = Mapping[int, Begin]


def begins_of(start_row: Tensor | None, start: Tensor, part: Part) -> Begins:
    """By step. start_row (B,T) or None, and start (S,h,b), as in `ScanCall`."""
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


def one_step(call: ScanCall) -> Tensor:
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


# Chunks side by side.
#
# The product of a chunk's transitions, P = A_{C-1} … A_0, tells what the chunk does to the state before it; it costs b
# times what the steps of a state cost. Then a short scan goes over the ends of chunks, and all chunks are filled in at
# once. The adjoint does the same with P^T.
#
# Shapes: as above.


def forward_in_chunks(steps: Steps, x: Tensor, before: Tensor, begins: Begins) -> Tensor:
    """As `forward`; before (B h,b,1) is the state before the first chunks. Returned is P (B,K,h,b,b)."""
    K, b = steps.part.chunks, steps.width
    P, u = products(steps, x, begins)
    h = steps.token // b
    P, ends = P.view(-1, K, h, b, b), _by_chunk(u, K, h)
    forward(_steps_over(P), ends, before, {})
    entering = torch.cat([before[None], ends[:-1]])
    forward(steps, x, _by_row(entering, h), begins)
    return P


def backward_in_chunks(steps: Steps, g: Tensor, begins: Begins, P: Tensor, after: Tensor) -> Tensor:
    """As `backward`; after (B h,b,1) is what the last state of the last chunks gets from tokens after them."""
    K, h = P.shape[1], P.shape[2]
    out = _by_chunk(backward(steps, g.clone(), begins), K, h)
    of_ends = torch.cat([out[1:], after[None]])
    backward(_steps_over(P), of_ends, {})
    g[-1] += _by_row(of_ends, h)
    return _by_chunk(backward(steps, g, begins), K, h)[0]


def _steps_over(P: Tensor) -> Steps:
    """One step a chunk."""
    return Steps(P, None, P.dtype, Part(0, 1, P.shape[1]))


def _by_chunk(x: Tensor, K: int, h: int) -> Tensor:
    """(B K h,b,1) -> (K,B h,b,1)"""
    return x.unflatten(0, (-1, K, h)).transpose(0, 1).flatten(1, 2).contiguous()


def _by_row(x: Tensor, h: int) -> Tensor:
    """The inverse of `_by_chunk`."""
    return x.unflatten(1, (-1, h)).transpose(0, 1).flatten(0, 2)


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


def states_of(call: ScanCall, chunks: int) -> tuple[Tensor, Tensor]:
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
            forward(steps, out, x, begins)
        else:
            products = forward_in_chunks(steps, out, x, begins).flatten(0, 2)
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
            after = backward(steps, out, begins)
        else:
            after = backward_in_chunks(steps, out, begins, products.view(B, chunks, h, b, b), after)
        part.take(lam).copy_(out.view(part.length, B, part.chunks, h, b))
    return lam, after
