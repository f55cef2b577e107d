"""A RegularGPT of one layer a group as the functions that its tree is made of, in any precision and with gradients.

    leaf_s             = what enters the depth for token s
    node(x_1, …, x_m)  = the layer's output at the last of these taps, m <= C; before the first of them stand pads
    logits             = head(norm(node))

Level l of the tree has the nodes of group l, and a word of n tokens is answered by the one node of level
max(1, ceil(log_C n)). Every node is `node` of up to C nodes of the level below, or of leaves. These are the model's own
modules: what its arithmetic makes of whole sets is for the checker to say.

Shapes: M nodes at once, m taps, C chunk, D model width, S outputs.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ...errors import Error
from ...mixers import Layout, Level
from ...models import LengthwiseForCausalLM
from ...models.depth import Adaptive
from ...models.snapped_nodes import SnappedLayer
from .. import certificate as certificates
from ..checker.tree import Tree

Nodes = Literal["continuous", "discrete", "snapped to centres"]
PIECE = 1 << 14
"""So many nodes are computed at a time."""


def inner_of(model: object) -> LengthwiseForCausalLM | None:
    inner = getattr(model, "inner", model)
    return inner if isinstance(inner, LengthwiseForCausalLM) else None


def no_tree(model: object) -> str | None:
    """Returns why the answers of a model are not made by such a tree, or None if they are."""
    inner = inner_of(model)
    if inner is None or not isinstance(inner.depth, Adaptive):
        return "it is no RegularGPT: it has no adaptive depth, whose groups would make a tree"
    if not inner.depth.shortens:
        return "its mixers read more than C nodes of the group below"
    if len(inner.depth.layers) > 1:
        return f"its groups have {len(inner.depth.layers)} layers, and a node of a tree is made by one (thickness 1)"
    if inner.position.at_input or inner.places_for_mixers:
        return "it knows positions, so that equal words are not equal nodes"
    return None


def tree_of(model: nn.Module, nodes: Nodes = "continuous", arithmetic: str = "float64") -> Tree | str:
    """Returns the tree as the checker reads it, or why no proof can be about the nodes of this model as such."""
    if reason := no_tree(model):
        return reason
    inner = inner_of(model)
    assert inner is not None
    layer = inner.depth.layers[0]
    own = "discrete" if layer.nodes is not None else "continuous"
    own = "snapped to centres" if isinstance(layer, SnappedLayer) else own
    if own != nodes:
        return f"its nodes are {own}, and not {nodes}"
    return certificates.network_of(inner, Tree, arithmetic)


class Node:
    """The node function of a model, with its leaves and its head."""

    def __init__(self, model: nn.Module):
        if reason := no_tree(model):
            raise Error(f"node: {reason}. A preset regular-gpt with thickness 1 and one chunk has one.")
        self.model: LengthwiseForCausalLM = inner_of(model)  # pyright: ignore[reportAttributeAccessIssue]
        self.depth: Adaptive = self.model.depth  # pyright: ignore[reportAttributeAccessIssue]
        self.layer: Any = self.depth.layers[0]
        self.chunk = self.depth.chunk
        self.width: int = self.model.config.width
        outputs = getattr(model, "num_outputs", None)
        self.outputs = slice(0, self.model.head.weight.shape[0] if outputs is None else outputs)

    def leaves(self, symbols: int, dtype: torch.dtype | None = None) -> Tensor:
        """(symbols,D) embedded tokens."""
        table = self.model.embedding.weight[:symbols] * self.model.config.embedding_scale
        return table if dtype is None else table.to(dtype)

    def of(self, taps: Tensor, continuous: bool = False) -> Tensor:
        """(M,m,D) -> (M,D), with `continuous` before it is snapped or a code is chosen."""
        return torch.cat([self._made(piece, continuous) for piece in taps.split(PIECE)])

    def _made(self, taps: Tensor, continuous: bool) -> Tensor:
        pad = None if self.model.pad is None else self.model.pad.to(taps.dtype)
        missing = self.chunk - taps.shape[1]
        if self.depth.pad_tokens and missing:
            assert pad is not None
            taps = torch.cat([pad.expand(len(taps), missing, -1), taps], 1)
        options = {"stride": taps.shape[1], "continuous": continuous}
        return _called(self.layer, taps, Layout.of(taps), Level(pad=pad), **options)[:, -1]

    def head(self, nodes: Tensor) -> Tensor:
        """(M,D) -> (M,S)."""
        x = _called(self.model.norm, nodes)
        if self.model.hidden is not None:
            x = _called(self.model.hidden, x).relu()
        return _called(self.model.head, x)[:, self.outputs]


def _called(module: nn.Module, x: Tensor, *others: Any, **options: Any) -> Tensor:
    """The module in the precision of x."""
    weights = {name: p.to(x.dtype) for name, p in [*module.named_parameters(), *module.named_buffers()]}
    return functional_call(module, weights, (x, *others), options)
