"""The transitions as the loops take them: token by token, the blocks of all rows side by side.

A step works on N = B K h blocks. Those of one token lie together but those of rows apart, so A is copied a few tokens
at a time into a tile that stays in the cache; a table is gathered in the same way. Products with A^T, whose rows are
what is summed, need no tile: `embedding_bag` reads rows where they lie. Of a table that is turned so are those with A.

Shapes: K chunks to a row of the batch, side by side, C tokens each (1 and T where nothing is cut), N = B K h.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

FITS, FITS_GPU = 2**16, 2**24
"""Numbers to a tile: on a CPU it stays in the second cache; on a GPU fewer launches count."""
BAGS = 64
"""From so many blocks on sums of rows beat small products: 19 against 78 ns a block of 8×8 (1,024 of them)."""


class Part(NamedTuple):
    """The tokens from `first` on, in K chunks of C."""

    first: int
    chunks: int
    length: int

    def take(self, x: Tensor) -> Tensor:
        """(B,T,…) -> (C,B,K,…), a view."""
        x = x[:, self.first : self.first + self.chunks * self.length]
        return x.unflatten(1, (self.chunks, self.length)).movedim(2, 0)


class Steps:
    def __init__(self, A: Tensor, index: Tensor | None, kind: torch.dtype, part: Part):
        """A (B,T,h,b,b), or with index (B,T) a table (V,h,b,b)."""
        self.A, self.part, self.kind = A, part, kind
        self.tokens = None if index is None else part.take(index).flatten(1)
        B = A.shape[0] if index is None else index.shape[0]
        self.length, self.width, self.token = part.length, A.shape[-1], A.shape[-3] * A.shape[-1]
        self.N = B * part.chunks * A.shape[-3]
        fits = FITS if A.device.type == "cpu" else FITS_GPU
        self.tile = max(1, fits // (self.N * self.width**2))
        plain = A.device.type == "cpu" and A.dtype == kind == torch.float32 and A.is_contiguous()
        self.bags = plain and self.N >= BAGS

    def __iter__(self) -> Iterator[Tensor]:
        """A_t (N,b,b) of every step."""
        for a in range(0, self.length, self.tile):
            yield from self._blocks(a, min(a + self.tile, self.length)).unbind(0)

    def __reversed__(self) -> Iterator[Tensor]:
        for a in reversed(range(0, self.length, self.tile)):
            yield from reversed(self._blocks(a, min(a + self.tile, self.length)).unbind(0))

    def _blocks(self, a: int, z: int) -> Tensor:
        if self.tokens is None:
            found = self.part.take(self.A)[a:z]
            found = found.to(self.kind, memory_format=torch.contiguous_format)
        else:
            found = self.A.flatten(1).index_select(0, self.tokens[a:z].flatten()).to(self.kind)
        return found.reshape(z - a, self.N, self.width, self.width)

    def sums(self, *, transposed: bool) -> RowSums | None:
        """(t, x) -> A_t x, or A_t^T x, by sums of rows, where that is the fast way."""
        if not self.bags or (self.tokens is None and not transposed):
            return None
        return RowSums(self, self.A if transposed else self.A.mT.contiguous())


class RowSums:
    """y_n = Σ_i x_ni a_ni, a_ni the i-th row of the n-th block of a step."""

    def __init__(self, steps: Steps, A: Tensor):
        self.rows, self.tokens, self.token = A.view(-1, steps.width), steps.tokens, steps.token
        self.first, self.within = steps.part.first, torch.arange(steps.token)
        if steps.tokens is None:
            begin = torch.arange(A.shape[0])[:, None] * A.shape[1] + torch.arange(steps.part.chunks) * steps.length
            self.within = (begin.view(-1, 1) * self.token + self.within).view(-1)
        self.bounds = torch.arange(0, steps.N * steps.width, steps.width)

    def __call__(self, t: int, x: Tensor) -> Tensor:
        if self.tokens is None:
            rows, at = self.rows[(self.first + t) * self.token :], self.within
        else:
            rows, at = self.rows, (self.tokens[t, :, None] * self.token + self.within).view(-1)
        return torch.embedding_bag(rows, at, self.bounds, False, 0, False, x.reshape(-1))[0].unsqueeze(-1)
