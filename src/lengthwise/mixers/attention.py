"""What attention mixers share: heads, the keys and values they go on from, and the part of a position encoding.

Shapes: B batch, T queries, S keys, H heads, d head width, D model width.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import Error, ShapeError
from ..positions import Bias, Layout, Placed, Places, Position, added
from .base import Mixer


class KeyValues(NamedTuple):
    """The state of an attention mixer: every key and value so far, and what is known of their tokens."""

    k: Tensor
    """(B,H,S,d), as `Position.rotate` left them."""
    v: Tensor
    layout: Layout
    places: Places | None = None
    """None where no position encoding acts on the attention."""
    gates: Tensor | None = None
    """(B,H,S) the cumulated gates of a mixer that has them."""
    last: Tensor | None = None
    """(B,2H,1,d) the last key and value before they were mixed with earlier ones, of a mixer that shifts tokens."""

    def then(self, k: Tensor, v: Tensor, layout: Layout, places: Places | None = None) -> KeyValues:
        return self.with_keys(k, layout, places).with_values(v)

    def with_keys(self, k: Tensor, layout: Layout, places: Places | None = None) -> KeyValues:
        """Further keys, where the values come of reading them: until `with_values` there are fewer of those."""
        if self.k.shape[0] != k.shape[0]:
            raise ShapeError(f"state: batch must be that of the tokens, {k.shape[0]}, got {self.k.shape[0]}.")
        joined = None if self.places is None or places is None else self.places.then(places)
        return self._replace(k=torch.cat([self.k, k], 2), layout=self.layout.then(layout), places=joined)

    def with_values(self, v: Tensor) -> KeyValues:
        return self._replace(v=torch.cat([self.v, v], 2))

    def with_gates(self, c: Tensor) -> KeyValues:
        """The gates of the keys that have none yet."""
        return self._replace(gates=c if self.gates is None else torch.cat([self.gates, c], 2))

    def with_last(self, last: Tensor) -> KeyValues:
        return self._replace(last=last)

    def with_turned(self, k: Tensor) -> KeyValues:
        """The same tokens, with these keys in the place of theirs."""
        return self._replace(k=k)


class AttentionMixer(Mixer):
    """A mixer of queries, keys and values, which the maps `qkv` and `out` make and read in several heads."""

    name: str

    def __init__(
        self,
        width: int,
        *,
        heads: Annotated[int, "How many attention heads share the width, which they must divide."],
        biases: Annotated[bool, "Whether the maps of the attention have biases."] = True,
        dropout: Annotated[float, "The share of the attention weights that training drops."] = 0.0,
    ):
        super().__init__()
        check_heads(self.name, width, heads)
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width, bias=biases)
        self.out = nn.Linear(width, width, bias=biases)
        self.traits = replace(self.traits, heads=heads)


def own_position(own: Position, placed: Placed | None, layout: Layout) -> Placed:
    """The encoding of a layer that has its own, with the places of the tokens.

    A layer that is used by itself places the tokens by their layout alone.
    """
    if placed is not None:
        return Placed(own, placed.places)
    places, state = own.place(None, layout)
    if state is not None:
        raise Error(
            f"{type(own).__name__} goes on from a state, which a model's cache keeps and a mixer does not: call the "
            "mixer with placed=Placed(None, places)."
        )
    return Placed(own, places)


def rotated(q: Tensor, k: Tensor, acting: Placed) -> tuple[Tensor, Tensor]:
    """Queries and keys as they are to be compared."""
    if acting.position is None:
        return q, k
    return acting.position.rotate_queries(q, acting.places), acting.position.rotate(k, acting.places)


def scored(q: Tensor, bare: Tensor, k: Tensor, acting: Placed, keys: Places | None) -> tuple[Tensor, Bias | None]:
    """The queries times their scale, and the bias of the logits; `bare` are the queries before they were rotated."""
    if acting.position is None or keys is None:
        return q, None
    score = acting.position.score(bare, acting.places, keys)
    if score.scale is not None:
        q = q * score.scale[:, None, :, None].to(q.dtype)
    if not acting.position.at_pairs:
        return q, score.bias
    return q, added(score.bias, acting.position.pairs(q, k, acting.places, keys))


def check_heads(name: str, width: int, heads: int) -> int:
    """The width of one head."""
    if heads < 1 or width % heads:
        raise Error(f"{name}: heads must divide the width, got {heads} heads and width {width}.")
    return width // heads


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B,T,D) -> (B,H,T,d)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def queries_keys_values(x: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """(B,T,3D) -> three of (B,H,T,d)."""
    B, T, _ = x.shape
    q, k, v = x.chunk(3, -1)
    shape = (B, T, heads, -1)
    return q.view(shape).transpose(1, 2), k.view(shape).transpose(1, 2), v.view(shape).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B,H,T,d) -> (B,T,D)."""
    return x.transpose(1, 2).flatten(-2)
