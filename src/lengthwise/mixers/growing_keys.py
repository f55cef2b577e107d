"""What a model's cache keeps of its attention layers: keys and values that grow in place, at the cost of what is new.

The layout and the places of the tokens are the same for all layers, so they are kept once (`GrowingTokens`), and the
keys and values of every layer refer to them.

These change in place, so they belong to whoever keeps the cache; the states which mixers hand out never change.

Shapes: B batch, H heads, S tokens so far, d head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..positions import Layout, Places
from .attention import KeyValues


class Growing:
    """A tensor with room to spare along one dimension; the room doubles when it is used up."""

    def __init__(self, first: Tensor, dim: int = 1):
        self.buffer, self.length, self.dim = first, first.shape[dim], dim
        # The first tensor is somebody else's, and is never written into.
        self.room = 0

    @property
    def value(self) -> Tensor:
        return self.buffer.narrow(self.dim, 0, self.length)

    def append(self, x: Tensor) -> Tensor:
        """The value with x at its end."""
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
        return self.buffer.narrow(self.dim, 0, end)

    def replace(self, x: Tensor) -> Tensor:
        """Another value of the same shape."""
        if self.length > self.room or torch.is_grad_enabled() or self.buffer.is_inference():
            self.buffer, self.room = x, 0
        else:
            self.value.copy_(x)
        return self.value

    def select(self, rows: Tensor) -> Growing:
        """These rows, in this order."""
        return Growing(self.value.index_select(0, rows), self.dim)

    def crop(self, length: int) -> None:
        self.length = min(self.length, length)


class GrowingTokens:
    """`Layout` and `Places` of the tokens so far, one sequence a row."""

    def __init__(self, layout: Layout, places: Places | None):
        self.layout, self.places = layout, places
        self._positions = Growing(layout.positions)
        self._real = None if layout.real is None else Growing(layout.real)
        # Ids that are the positions themselves are not kept a second time.
        self._ids = {name: Growing(ids) for name, ids in (places or {}).items() if ids is not layout.positions}

    def append(self, layout: Layout, places: Places | None) -> None:
        if layout.real is not None and self._real is None:
            self._real = Growing(self.layout.real_tokens())
        real = None if self._real is None else self._real.append(layout.real_tokens())
        self.layout = Layout(self._positions.append(layout.positions), real=real)
        if places is not None:
            self.places = Places(self.layout.positions)
            for name, ids in self._ids.items():
                self.places[name] = ids.append(places[name])

    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order; all layers that refer to these tokens follow."""
        self._positions = self._positions.select(rows)
        self._real = None if self._real is None else self._real.select(rows)
        self._ids = {name: ids.select(rows) for name, ids in self._ids.items()}
        self._read()

    def crop(self, length: int) -> None:
        for part in (self._positions, self._real, *self._ids.values()):
            if part is not None:
                part.crop(length)
        self._read()

    def _read(self) -> None:
        """The values, once for all layers that ask."""
        self.layout = Layout(self._positions.value, real=None if self._real is None else self._real.value)
        if self.places is not None:
            self.places = Places(**{"token": self.layout.positions, **{name: i.value for name, i in self._ids.items()}})


class GrowingKeyValues:
    """`KeyValues` that grow in place; their `tokens` are the cache's, which has noted the new ones already."""

    def __init__(self, first: KeyValues, tokens: GrowingTokens):
        self.k, self.v, self.layout, self.places, self.gates, self.last = first
        self.croppable = self.last is None
        self._k, self._v, self._tokens = Growing(first.k, 2), Growing(first.v, 2), tokens
        self._gates = None if first.gates is None else Growing(first.gates, 2)

    def then(self, k: Tensor, v: Tensor, layout: Layout, places: Places | None = None) -> GrowingKeyValues:
        self.k, self.v = self._k.append(k), self._v.append(v)
        self.layout, self.places = self._tokens.layout, self._tokens.places
        return self

    def with_keys(self, k: Tensor, layout: Layout, places: Places | None = None) -> GrowingKeyValues:
        self.k = self._k.append(k)
        self.layout, self.places = self._tokens.layout, self._tokens.places
        return self

    def with_values(self, v: Tensor) -> GrowingKeyValues:
        self.v = self._v.append(v)
        return self

    def with_gates(self, c: Tensor) -> GrowingKeyValues:
        assert self._gates is not None
        self.gates = self._gates.append(c)
        return self

    def with_last(self, last: Tensor) -> GrowingKeyValues:
        self.last = last
        return self

    def with_turned(self, k: Tensor) -> GrowingKeyValues:
        self.k = self._k.replace(k)
        return self

    def select(self, rows: Tensor) -> GrowingKeyValues:
        k, v = self._k.select(rows).value, self._v.select(rows).value
        gates = None if self._gates is None else self._gates.select(rows).value
        last = None if self.last is None else self.last[rows]
        return GrowingKeyValues(KeyValues(k, v, self.layout, self.places, gates, last), self._tokens)

    def crop(self, length: int) -> None:
        self._k.crop(length)
        self._v.crop(length)
        self.k, self.v = self._k.value, self._v.value
        if self._gates is not None:
            self._gates.crop(length)
            self.gates = self._gates.value
