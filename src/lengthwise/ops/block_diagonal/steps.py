"""The steps of the scan: token by token the transitions of all rows side by side, and the operation that applies them.

A step works on N = B K h blocks. Those of one token lie together but those of rows apart, so A is copied a few tokens
at a time into one tile, used again and again; a table is gathered in the same way. A product with A^T sums rows of A
and needs no tile: `embedding_bag` reads rows where they lie. A table is transposed once, so that a product with A sums
rows too.

Shapes: K chunks to a row of the batch, side by side, C tokens each (1 and T where nothing is cut), N = B K h.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

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
        """How A_t y is added, and the transitions of every step."""
        if self.bags and self.tokens is not None:
            return _add_sums, self._rows(self.A.mT.contiguous(), back=False)
        return Tensor.baddbmm_, self.blocks()

    def adjoint(self) -> tuple[Add, Iterator[Any]]:
        """How A_t^T y is added, and the transitions of every step, the last step first."""
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
