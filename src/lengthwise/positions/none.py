"""No positions at all: a causal model can still tell them apart by how many tokens it sees."""

from __future__ import annotations

from .base import Position


class NoPosition(Position):
    """`positions.get("none", width=…, heads=…)`: it does nothing anywhere."""

    def __init__(self, width: int, heads: int):
        super().__init__()
