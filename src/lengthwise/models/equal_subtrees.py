"""Equal tokens once: the one switch by which a model computes what equal tokens share once, not once for each.

The switch is off until `model.reuse_equal_tokens()` is called; `refusal` says why that may be refused. It is decided
there and not in `forward`, which does what the switch says. Two kinds of model gain by it; values and gradients are the
same.

A first mixer that looks up (`Traits.looks_up`), behind embeddings alone, reads a table of the vocabulary,

    x_t = table[token_t]

so that its networks run on V rows instead of B T.

An adaptive depth of one sliding-dilated layer shares subtrees on its short way to the last position. A node of the tree
is a function of its C children alone, and a leaf of its token. Over a small vocabulary most of the lower nodes are the
same: PARITY has four different pairs of bits, however many strings are read. So nodes are a table of the different ones
and an index into it,

    node[b, i] = table[index[b, i]],        table' = layer(the different C-tuples of indices)

until most tuples differ.

Shapes: B batch, T tokens, V words of the vocabulary, n nodes a row, N different nodes, M different tuples, C chunk,
D model width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..mixers import Layout, Level
from ..mixers.base import from_end

WORTH = 0.5
"""Tuples are looked up while fewer than this share of them differ."""
INTEGERS = 2**62


class EqualTokens(NamedTuple):
    """The equal tokens of a batch, which a depth policy is told when the switch is on."""

    ids: Tensor
    """(B,T): tokens with equal ids enter the depth as equal vectors."""
    table: Tensor | None
    """(V,D) those vectors, where the first mixer looks up; None where subtrees are shared."""


class DifferentNodes(NamedTuple):
    """The nodes of one group, as a table of the different ones."""

    table: Tensor
    """(N,D)"""
    ids: Tensor
    """(B,n), -1 before the first token."""
    layout: Layout

    @property
    def last(self) -> Tensor:
        """(B,1,D)"""
        return F.embedding(self.ids[:, -1:], self.table)

    @property
    def all(self) -> Tensor:
        """(B,n,D)"""
        return F.embedding(self.ids.clamp(min=0), self.table)


def leaves(x: Tensor, tokens: Tensor, layout: Layout) -> DifferentNodes:
    """The embedded tokens, every different one once. Where a row has padding, it is on the left."""
    kinds, index = tokens.unique(return_inverse=True)
    # Any occurrence of a token can stand for all of them.
    some = index.new_empty(len(kinds)).scatter_(0, index.flatten(), torch.arange(index.numel(), device=x.device))
    table = x.flatten(0, 1)[some]
    return DifferentNodes(table, index if layout.plain else index.masked_fill(layout.positions < 0, -1), layout)


def grouped(nodes: DifferentNodes, chunk: int, layer: Callable[..., Tensor], level: Level) -> DifferentNodes | None:
    """The nodes one group up, or None when it is not worth it."""
    N, n = len(nodes.table), nodes.ids.shape[1]
    if (N + 1) ** chunk >= INTEGERS:
        return None
    ids = F.pad(nodes.ids, (-n % chunk, 0), value=-1)
    places = (N + 1) ** torch.arange(chunk - 1, -1, -1, device=ids.device)
    codes = ((ids.unflatten(1, (-1, chunk)) + 1) * places).sum(-1)
    tuples, up = codes.unique(return_inverse=True)
    if len(tuples) > WORTH * codes.numel():
        return None
    children = tuples[:, None] // places % (N + 1) - 1

    absent = (children < 0).sum(1, keepdim=True)
    layout = Layout(torch.arange(chunk, device=ids.device) - absent)
    if bool(absent.any()):
        layout = replace(layout, real=children >= 0)
    table = layer(F.embedding(children.clamp(min=0), nodes.table), layout, level, stride=chunk)[:, 0]

    above = nodes.layout.pick(from_end(n, chunk))
    above = replace(above, positions=above.positions.div(chunk, rounding_mode="floor"))
    return DifferentNodes(table, up if above.plain else up.masked_fill(above.positions < 0, -1), above)
