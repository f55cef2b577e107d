"""What a position encoding may do: name the ids of the tokens, then add to the input, turn queries and keys, or score.

    places, state = position.place(tokens, layout, state)       once per forward, for all layers
    x             + position.embed(places)
    q, k          = position.rotate_queries(q, places), position.rotate(k, places)
    logits        = scale (q · k) / sqrt(d) + bias               scale, bias = position.score(q, places, keys' places)

Shapes: B batch, T queries, S keys, H heads, d head width, D model width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .layout import Layout
from .score import NOTHING, Bias, Score


class Places(dict[str, Tensor]):
    """The ids of the tokens, by name: "token" and whatever else an encoding places by. Every id is (B,T) integers.

    >>> places = Places(token=torch.tensor([[0, 1, 2]]), sentence=torch.tensor([[0, 0, 1]]))
    >>> {name: ids.tolist() for name, ids in places.pick(slice(1, None)).items()}
    {'token': [[1, 2]], 'sentence': [[0, 1]]}
    """

    def __init__(self, token: Tensor, **others: Tensor):
        super().__init__(token=token, **others)
        self._found: dict[Any, Any] = {}

    def once(self, key: Any, find: Callable[[], Any]) -> Any:
        """What `find` makes of these ids, found by whoever asks first and kept for the other layers."""
        if key not in self._found:
            self._found[key] = find()
        return self._found[key]

    def pick(self, columns: Tensor | slice) -> Places:
        """The places of some of the tokens."""
        return self._each(lambda name, ids: ids[:, columns])

    def then(self, new: Places) -> Places:
        """The places of these tokens and the `new` ones after them."""
        return self._each(lambda name, ids: torch.cat([ids, new[name]], 1))

    def _each(self, change: Callable[[str, Tensor], Tensor]) -> Places:
        return Places(**{name: change(name, ids) for name, ids in self.items()})


class Position(nn.Module):
    """A position encoding. This one does nothing; subclasses override what they need, and declare it.

    Ids count from 0 inside each sequence and are negative on left padding, where a result is never read but must be
    finite. A model holds one encoding, which all its layers share, unless it has weights of its own `in_each_layer`:
    then every layer holds one, and the tokens are still placed once.
    """

    at_input = False
    """Whether `embed` acts."""
    at_attention = False
    """Whether `rotate`, `rotate_queries` or `score` act."""
    at_pairs = False
    """Whether `pairs` acts."""
    has_segments = False
    """Whether its places say where segments begin (`begins_segment`)."""
    at_most: int | None = None
    """How many tokens a text may have, beyond which it is refused; None: any number."""
    uncached: str | None = None
    """Why nothing can be kept between the steps of decoding; None where it can."""
    takes_fractions = False
    """Whether a place may be between two numbers."""
    in_each_layer = False
    """Whether every layer has weights of its own for what acts on attention."""
    longest: int | None = None
    """How many places it can tell apart, beyond which tokens share one; None: any number."""

    def place(self, tokens: Tensor | None, layout: Layout, state: Any = None) -> tuple[Places, Any]:
        """The ids of these tokens, and a state from which to place the next ones; it uses no weights.

        `tokens` (B,T) is None where a mixer is used without a model; an encoding that reads them raises an Error then.
        `state` is None before the first token. One that is not None has `select(rows)` and says by `croppable` whether
        it has `crop(length)`, as a mixer's state does; the cache of a model keeps it. Ids that are `layout.positions`
        itself are so in every call.
        """
        return Places(token=layout.positions), None

    def embed(self, places: Places) -> Tensor | None:
        """(B,T,D) to add to the token embeddings."""
        return None

    def rotate(self, x: Tensor, places: Places) -> Tensor:
        """Queries or keys (B,H,T,d) as attention is to compare them, before they are scaled; both are turned alike."""
        return x

    def rotate_queries(self, q: Tensor, places: Places) -> Tensor:
        """Queries, for an encoding that treats them unlike keys: Transformer-XL adds a vector to them alone."""
        return self.rotate(q, places)

    def score(self, q: Tensor, queries: Places, keys: Places) -> Score:
        """What is done to the logits; `q` (B,H,T,d) are the queries before `rotate_queries`."""
        return NOTHING

    def pairs(self, q: Tensor, k: Tensor, queries: Places, keys: Places) -> Bias | None:
        """What is added to the logits of pairs besides, by an encoding that multiplies them by more than a query's
        number; `q` (B,H,T,d) and `k` (B,H,S,d) are as they are compared."""
        return None


@dataclass(frozen=True, eq=False)
class Placed:
    """What a model tells the mixers that compare queries with keys: which encoding it has, and where it placed them."""

    position: Position | None
    """None where each layer has its own."""
    places: Places
