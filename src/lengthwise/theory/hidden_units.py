"""Feed-forward parts as they are written down: hidden units that read some entries and add to others.

x + W_down ReLU(W_up x)        without biases: a constant is a multiple of the entry that holds one
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .bi_nfa_vector import Regions

Reads = Sequence[tuple[Tensor | int, Tensor | float]]
"""Entries, and what each is multiplied by."""


class HiddenUnits:
    """The hidden units of a feed-forward part: each adds the ReLU of a sum of entries to other entries."""

    def __init__(self, at: Regions):
        self.at = at
        self.up: list[Tensor] = []
        self.down: list[Tensor] = []

    def add(self, reads: Reads, writes: Reads, constant: float = 0.0) -> None:
        """A unit for every place of these tensors, as they broadcast."""
        every = [torch.as_tensor(x) for pair in (*reads, *writes) for x in pair]
        shape = torch.broadcast_shapes(*(x.shape for x in every))
        self.up.append(self._placed([*reads, (self.at.one, constant / self.at.constant)], shape))
        self.down.append(self._placed(writes, shape))

    def _placed(self, terms: Reads, shape: torch.Size) -> Tensor:
        weights = torch.zeros(shape.numel(), self.at.width)
        unit = torch.arange(shape.numel())
        for entry, factor in terms:
            entry = torch.as_tensor(entry).expand(shape).flatten()
            factor = torch.as_tensor(factor, dtype=weights.dtype).expand(shape).flatten()
            weights.index_put_((unit, entry), factor, accumulate=True)
        return weights

    def forget(self, entries: Tensor) -> None:
        """x - x = x - (ReLU(x) - ReLU(-x))"""
        self.add([(entries, 1.0)], [(entries, -1.0)])
        self.add([(entries, -1.0)], [(entries, 1.0)])

    @property
    def expansion(self) -> int:
        return max(1, -(-sum(map(len, self.up)) // self.at.width))

    def weights(self) -> dict[str, Tensor]:
        up, down = torch.cat(self.up), torch.cat(self.down)
        idle = torch.zeros(self.expansion * self.at.width - len(up), self.at.width)
        return {"up.weight": torch.cat([up, idle]), "down.weight": torch.cat([down, idle]).T.contiguous()}
