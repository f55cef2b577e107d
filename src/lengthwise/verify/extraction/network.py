"""A RegularGPT of one layer a group as the functions its tree is made of.

    leaf_s = what enters the depth for token s
    node(x_1, …, x_m) = the layer's output at the last of these tokens, m <= C; before the first of them stand pads
    logits = head(norm(node))

Level l of the tree has the nodes of group l, and a word of n tokens is answered by the one node of level
max(1, ceil(log_C n)). Every node is `node` of up to C nodes of the level below, or of leaves.

Shapes: S symbols, M nodes at once, m taps, D model width, E outputs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import Error
from ...mixers import Layout, Level
from ...models import LengthwiseForCausalLM
from ...models.depth import Adaptive

PIECE = 1 << 14
"""So many nodes are computed at a time."""


def no_tree(model: object) -> str | None:
    """Why the answers of a model are not made by such a tree; None where they are."""
    if not isinstance(model, LengthwiseForCausalLM) or not isinstance(model.depth, Adaptive):
        return "it has no adaptive depth, whose groups would make a tree"
    if not model.depth.shortens:
        return "its mixers read more than C nodes of the group below"
    if len(model.depth.layers) > 1:
        return f"its groups have {len(model.depth.layers)} layers, and a node of a tree is made by one (thickness 1)"
    if model.position.at_input or model.places_for_mixers:
        return "it knows positions, so that equal words are not equal nodes"
    return None


class TreeNetwork:
    """The functions of a model, in its own precision and on its own device."""

    def __init__(self, model: LengthwiseForCausalLM):
        if reason := no_tree(model):
            raise Error(f"extract: this model is no tree: {reason}.")
        self.model = model
        assert isinstance(model.depth, Adaptive)
        self.depth = model.depth
        self.chunk = model.depth.chunk

    @torch.no_grad()
    def leaves(self, symbols: int) -> Tensor:
        """(S,D)."""
        weight = self.model.embedding.weight
        x = self.model.embedding(torch.arange(symbols, device=weight.device))
        return x * self.model.config.embedding_scale if self.model.config.embedding_scale != 1 else x

    @torch.no_grad()
    def node(self, taps: Tensor) -> Tensor:
        """(M,m,D) -> (M,D)."""
        return torch.cat([self._node(piece) for piece in taps.split(PIECE)])

    def _node(self, taps: Tensor) -> Tensor:
        pad = self.model.pad
        missing = self.chunk - taps.shape[1]
        if self.depth.pad_tokens and missing:
            assert pad is not None
            taps = torch.cat([pad.to(taps.dtype).expand(len(taps), missing, -1), taps], 1)
        return self.depth.layers[0](taps, Layout.of(taps), Level(pad=pad), stride=taps.shape[1])[:, -1]

    @torch.no_grad()
    def logits(self, nodes: Tensor) -> Tensor:
        """(M,D) -> (M,E)."""
        x = self.model.norm(nodes)
        return self.model.head(x if self.model.hidden is None else torch.relu(self.model.hidden(x)))
