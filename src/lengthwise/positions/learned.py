"""Learned absolute positions: x_t += E[min(t, N-1)], one table of N rows, its last row standing for all beyond."""

from __future__ import annotations

from torch import Tensor, nn

from ..errors import Error
from .base import Places, Position


class Learned(Position):
    at_input = True

    def __init__(self, width: int, heads: int, *, rows: int = 512):
        super().__init__()
        if rows < 1:
            raise Error(f"Learned positions: rows must be at least 1, got {rows}.")
        self.table = nn.Embedding(rows, width)

    def embed(self, places: Places) -> Tensor:
        return self.table(places["token"].clamp(0, self.table.num_embeddings - 1))
