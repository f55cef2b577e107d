"""What a mixer is: a layer by which tokens learn of those before them.

    y, state = mixer(x, layout=layout, state=None)

`x` and `y` are (B, T, D), and `layout` says which sequences the tokens belong to. `state` is all that is needed to go
on with the next tokens: keys and values, or what a recurrence remembers. One law binds all mixers, in values
and gradients:

    whole = in pieces = token by token = packed = left-padded

Shapes: B batch, T tokens, D model width.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from ..positions import Layout


@dataclass(frozen=True)
class Traits:
    """The abilities and wishes of a mixer: declared once, and read by whoever runs it."""

    stackable: bool = True
    """torch.func.vmap can run it over stacked parameters."""
    dilates: bool = False
    """At level l it reads only positions congruent modulo C^l and is, on those alone, itself at level 0."""
    looks_up: bool = False
    """`x` may be a (V,D) table with an `index` (B,T) of its rows, for tokens of which many are equal."""
    keeps_keys: bool = False
    """Its state is the keys and values of all tokens, so that their layout must be kept too."""
    splits: bool = False
    """Its rows may go on on other ranks (`Layout.piece`)."""
    takes_position: bool = False
    """It compares queries with keys, and is called with `placed`, where a model has placed its tokens for that."""
    reads_segments: bool = False
    """It reads of `placed` where segments begin, so the model must have an encoding that knows (`has_segments`)."""
    knows_order: str = ""
    """How it knows the order of tokens, as a clause; with that, no encoding of positions may act on its attention."""
    takes_ends: bool = False
    """It is called with `ends`, whether the state after the last token is asked for, which costs it as much as y."""
    takes_level: bool = False
    """It is called with `level`, what an adaptive depth has to say (`Level`)."""
    shares_pad: bool = False
    """It reads the model's pad vector from `level.pad`."""
    heads: int = 1
    """Into how many heads it splits the width; 1: it has none."""
    chunk: int | None = None
    """The chunk of an adaptive depth that it serves; None: it serves any."""


@dataclass(frozen=True, eq=False)
class Level:
    """The word of an adaptive depth to its mixers, beside the layout of the tokens."""

    number: int = 0
    """The depth group l; 0 in models of a fixed depth."""
    pad: Tensor | None = None
    """(D,) the vector which the model puts before the first token; None: it has none."""

    def at(self, number: int) -> Level:
        return replace(self, number=number)


FIRST = Level()
"""Of a mixer that is no part of an adaptive depth."""


class Mixer(nn.Module):
    """Base of all mixers. When `layout.plain`, a mixer must not branch on the data (torch.compile, torch.func.vmap)."""

    traits = Traits()

    def forward(self, x: Tensor, *, layout: Layout, state: Any = None) -> tuple[Tensor, Any]:
        raise NotImplementedError

    def at(self, x: Tensor, *, layout: Layout, stride: int, **options: Any) -> Tensor:
        """`y` at every stride-th token alone, counted from the end; a mixer may know a shorter way than this one.

        `options`: what `forward` takes beside these, by the mixer's traits.
        """
        return self(x, layout=layout, **options)[0][:, from_end(x.shape[1], stride)]


def from_end(T: int, stride: int) -> slice:
    """Every stride-th of T columns, the last one included.

    >>> list(range(7))[from_end(7, 3)]
    [0, 3, 6]
    """
    return slice((T - 1) % stride, None, stride)
