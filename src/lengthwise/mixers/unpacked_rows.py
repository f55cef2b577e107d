"""Padded or packed rows taken apart, every sequence to a row of its own, and put together again.

Shapes: B batch, T tokens, R real tokens, N sequences, L the longest one's tokens, D width of a vector.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..positions import Layout


class UnpackedRows:
    """The sequence that every real token belongs to, and its place in it."""

    def __init__(self, layout: Layout):
        B, T = self.shape = layout.positions.shape
        device = layout.positions.device
        real = torch.ones(B, T, dtype=torch.bool, device=device) if layout.real is None else layout.real
        sequences = torch.zeros_like(layout.positions) if layout.sequences is None else layout.sequences

        self.row, self.column = real.nonzero(as_tuple=True)
        """(R,) the row and the column of each real token."""
        sequence, R = sequences[self.row, self.column], len(self.row)
        begins = torch.ones_like(self.row, dtype=torch.bool)
        begins[1:] = (self.row[1:] != self.row[:-1]) | (sequence[1:] != sequence[:-1])
        first = begins.nonzero()[:, 0]
        self.n = begins.long().cumsum(0) - 1
        """(R,) the sequence each belongs to."""
        self.t = torch.arange(R, device=device) - first[self.n]
        """(R,) its place in there."""
        self.lengths = first.diff(append=first.new_tensor([R]))
        """(N,)"""
        self.owner, self.sequence = self.row[first], sequence[first]
        """(N,) the row a sequence stands in, and its number there."""
        self.opens = torch.ones_like(self.owner, dtype=torch.bool)
        self.opens[1:] = self.owner[1:] != self.owner[:-1]
        """(N,) whether it is the first of its row."""
        self.closes = torch.ones_like(self.opens)
        self.closes[:-1] = self.opens[1:]
        """(N,) whether it is the last of its row."""

    def __len__(self) -> int:
        return len(self.owner)

    def take_apart(self, x: Tensor, to_the_right: bool = False) -> Tensor:
        """(B,T,D) -> (N,L,D), each on the left of its row, or on the right; zero elsewhere."""
        L = int(self.lengths.max())
        column = self.t + (L - self.lengths)[self.n] if to_the_right else self.t
        return x.new_zeros(len(self), L, x.shape[-1]).index_put((self.n, column), x[self.row, self.column])

    def put_together(self, y: Tensor, to_the_right: bool = False) -> Tensor:
        """(N,L,D) -> (B,T,D), zero on padding."""
        column = self.t + (y.shape[1] - self.lengths)[self.n] if to_the_right else self.t
        return y.new_zeros(*self.shape, y.shape[-1]).index_put((self.row, self.column), y[self.n, column])
