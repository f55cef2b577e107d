"""What a mixer is: a layer by which tokens learn of those before them.

    y, state = mixer(x, where=where, state=None)

`x` and `y` are (B, T, D). `state` is all that is needed to go on with the next tokens: keys and values, or what a
recurrence remembers. One law binds all of them, values and gradients:

    whole = in pieces = token by token = packed = left-padded

Shapes: B batch, T tokens, S keys, H heads, d head width, D model width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import Error, ShapeError
from .where import Where


class Mixer(nn.Module):
    """Base of all mixers. Where `where.plain`, a mixer must not branch on the data (torch.compile, torch.func.vmap)."""

    stackable = True
    """Whether torch.func.vmap can run it over stacked parameters."""
    dilates = False
    """Whether level l reads only positions congruent modulo C^l and is, on those alone, level 0."""
    looks_up = False
    """Whether `x` may be a (V,D) table with an `index` (B,T) of its rows, for tokens of which many are equal."""

    def forward(self, x: Tensor, *, where: Where, state: Any = None) -> tuple[Tensor, Any]:
        raise NotImplementedError

    def at(self, x: Tensor, *, where: Where, stride: int) -> Tensor:
        """`y` at every stride-th token alone, counted from the end; a mixer may know a shorter way than this one."""
        return self(x, where=where)[0][:, from_end(x.shape[1], stride)]


def from_end(T: int, stride: int) -> slice:
    """Every stride-th of T columns, the last one included.

    >>> list(range(7))[from_end(7, 3)]
    [0, 3, 6]
    """
    return slice((T - 1) % stride, None, stride)


class KeyValues(NamedTuple):
    """The state of an attention mixer: every key and value so far, and where they stand."""

    k: Tensor
    """(B,H,S,d), as `Position.rotate` left them."""
    v: Tensor
    where: Where

    def then(self, k: Tensor, v: Tensor, where: Where) -> KeyValues:
        return self.with_keys(k, where).with_values(v)

    def with_keys(self, k: Tensor, where: Where) -> KeyValues:
        """Further keys, where the values come of reading them: until `with_values` there are fewer of those."""
        if self.k.shape[0] != k.shape[0]:
            raise ShapeError(f"state: batch must be that of the tokens, {k.shape[0]}, got {self.k.shape[0]}.")
        return KeyValues(torch.cat([self.k, k], 2), self.v, self.where.then(where))

    def with_values(self, v: Tensor) -> KeyValues:
        return self._replace(v=torch.cat([self.v, v], 2))


def check_heads(name: str, width: int, heads: int) -> int:
    """The width of one head."""
    if heads < 1 or width % heads:
        raise Error(f"{name}: heads must divide the width, got {heads} heads and width {width}.")
    return width // heads


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B,T,D) -> (B,H,T,d)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B,H,T,d) -> (B,T,D)."""
    return x.transpose(1, 2).flatten(-2)
