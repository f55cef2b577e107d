"""What a decoding cache keeps: tensors and keys that grow in place, at the cost of what is new.

They change in place, so they belong to whoever keeps the cache; the states which mixers hand out never change.

Shapes: B batch, H heads, S tokens so far, d head width.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ..positions import Layout
from .base import KeyValues


class Growing:
    """A tensor with room to spare along one dimension; the room doubles when it is used up."""

    def __init__(self, first: Tensor, dim: int = 1):
        self.buffer, self.length, self.dim = first, first.shape[dim], dim
        # The first tensor is somebody else's, and is never written into.
        self.room = 0

    @property
    def value(self) -> Tensor:
        return self.buffer.narrow(self.dim, 0, self.length)

    def append(self, x: Tensor) -> None:
        end = self.length + x.shape[self.dim]
        if torch.is_grad_enabled():
            # Written into in place, a tensor would be wrong for the backward pass of an earlier step.
            self.buffer, self.room = torch.cat([self.value, x], self.dim), 0
        else:
            # What was kept in inference mode cannot be written into outside of it.
            if end > self.room or (self.buffer.is_inference() and not torch.is_inference_mode_enabled()):
                size = list(self.buffer.shape)
                size[self.dim] = 2 * end
                larger = self.buffer.new_empty(size)
                larger.narrow(self.dim, 0, self.length).copy_(self.value)
                self.buffer, self.room = larger, 2 * end
            self.buffer.narrow(self.dim, self.length, x.shape[self.dim]).copy_(x)
        self.length = end

    def select(self, rows: Tensor) -> Growing:
        """These rows, in this order."""
        return Growing(self.value.index_select(0, rows), self.dim)

    def crop(self, length: int) -> None:
        self.length = min(self.length, length)


class GrowingLayout:
    """`Layout` of the tokens so far, one sequence a row."""

    def __init__(self, first: Layout):
        self.first, self.positions = first, Growing(first.positions)
        self.real = None if first.real is None else Growing(first.real)

    @property
    def value(self) -> Layout:
        real = None if self.real is None else self.real.value
        return replace(self.first, positions=self.positions.value, real=real)

    def append(self, new: Layout) -> None:
        if new.real is not None and self.real is None:
            self.real = Growing(torch.ones_like(self.positions.value, dtype=torch.bool))
        if self.real is not None:
            self.real.append(torch.ones_like(new.positions, dtype=torch.bool) if new.real is None else new.real)
        self.positions.append(new.positions)

    def select(self, rows: Tensor) -> GrowingLayout:
        return GrowingLayout(self.value.pick_rows(rows))

    def crop(self, length: int) -> None:
        self.positions.crop(length)
        if self.real is not None:
            self.real.crop(length)


class GrowingKeyValues:
    """`KeyValues` that grow in place."""

    def __init__(self, first: KeyValues):
        self._k, self._v, self._layout = Growing(first.k, 2), Growing(first.v, 2), GrowingLayout(first.layout)

    @property
    def k(self) -> Tensor:
        return self._k.value

    @property
    def v(self) -> Tensor:
        return self._v.value

    @property
    def layout(self) -> Layout:
        return self._layout.value

    def then(self, k: Tensor, v: Tensor, layout: Layout) -> GrowingKeyValues:
        return self.with_keys(k, layout).with_values(v)

    def with_keys(self, k: Tensor, layout: Layout) -> GrowingKeyValues:
        self._k.append(k)
        self._layout.append(layout)
        return self

    def with_values(self, v: Tensor) -> GrowingKeyValues:
        self._v.append(v)
        return self

    def select(self, rows: Tensor) -> GrowingKeyValues:
        k, v = self._k.select(rows).value, self._v.select(rows).value
        return GrowingKeyValues(KeyValues(k, v, self._layout.select(rows).value))

    def crop(self, length: int) -> None:
        for part in (self._k, self._v, self._layout):
            part.crop(length)
