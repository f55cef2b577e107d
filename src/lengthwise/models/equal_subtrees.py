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

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.modules.dropout import _DropoutNd

from ..mixers import Layout, Level
from ..mixers.base import from_end

if TYPE_CHECKING:
    from .shell import LengthwisePreTrainedModel

WORTH = 0.5
"""Tuples are looked up while fewer than this share of them differ."""
INTEGERS = 2**62


class EqualTokens(NamedTuple):
    """What a depth policy is told when the switch is on."""

    ids: Tensor
    """(B,T): tokens with equal ids enter the depth as equal vectors."""
    table: Tensor | None
    """(V,D) those vectors, where the first mixer looks up; None where subtrees are shared."""


def refusal(model: LengthwisePreTrainedModel, stacked: bool) -> str | None:
    """Why this model, as it is now, must compute every token; None where it need not.

    `stacked`: it will run under torch.func.vmap.
    """
    if not (model.depth.looks_up or model.depth.shares_subtrees):
        return (
            "nothing in this model is the same for equal tokens: its first mixer looks nothing up, and its depth is no "
            "tree of one sliding-dilated layer a group"
        )
    if model.position.at_input:
        return "positions are added to the embeddings, so equal tokens are no longer equal. Use positions in attention"
    if any(isinstance(weight, DTensor) for weight in model.parameters()):
        return "its weights are sharded (FSDP2 or tensor parallel), and every rank must compute the same tokens"
    read = [*model.embedding.modules(), *model.depth.modules()]
    if _hooked(read):
        return "a hook on the embedding or the depth must see every token. Remove the hook first"
    if draws(model):
        return "dropout draws anew for every token. Call eval() first, or train without dropout"
    if model.depth.shares_subtrees and stacked:
        return "models stacked by torch.func.vmap cannot look at the tokens to find equal subtrees"
    if model.depth.shares_subtrees and model.embedding.weight.device.type != "cpu":
        return "on an accelerator the look for equal subtrees costs more than it saves"
    return None


def draws(model: LengthwisePreTrainedModel) -> bool:
    """Whether dropout, of the model or of something put into it, is active where equal tokens are computed once."""
    if model.training and model.config.dropout:
        return True
    read = [*model.embedding.modules(), *model.depth.modules()]
    return any(isinstance(m, _DropoutNd) and m.training and m.p > 0 for m in read)


def _hooked(modules: Iterable[nn.Module]) -> bool:
    """Whether a hook sees, or changes, what passes one of these, forwards or backwards."""
    if torch.nn.modules.module._has_any_global_hook():
        return True
    return any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks or m._backward_pre_hooks for m in modules)


class Nodes(NamedTuple):
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


def leaves(x: Tensor, tokens: Tensor, layout: Layout) -> Nodes:
    """The embedded tokens, every different one once. Where a row has padding, it is on the left."""
    kinds, index = tokens.unique(return_inverse=True)
    # Any occurrence of a token can stand for all of them.
    some = index.new_empty(len(kinds)).scatter_(0, index.flatten(), torch.arange(index.numel(), device=x.device))
    table = x.flatten(0, 1)[some]
    return Nodes(table, index if layout.plain else index.masked_fill(layout.positions < 0, -1), layout)


def grouped(nodes: Nodes, chunk: int, layer: Callable[..., Tensor], level: Level) -> Nodes | None:
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
    return Nodes(table, up if above.plain else up.masked_fill(above.positions < 0, -1), above)
