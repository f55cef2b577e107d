"""A chunk chosen by training: one set of layers, a tree for every candidate chunk, and what the data think of each.

    P(y | x) = sum_c p_c P_c(y | x),        p = softmax(10 a),   a learned

P_c is what the tree of chunk c predicts; the trees share all weights but the taps a smaller chunk does not have. The
loss of this mixture raises p_c where tree c explains the answers better than the others do, and what is improbable is
trained less, so that one chunk wins. In training all trees run; in evaluation the most probable alone.

The mixture is of distributions over the outputs, so it is for models read through a softmax. The factor 10 lets an
optimiser whose steps are about the learning rate decide within some hundred of them.

Shapes: N candidates, B batch, T tokens, D model width, S outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from ..errors import Error
from ..mixers import Layout, Level
from ..mixers.base import FIRST
from ..positions import Placed
from .cache import LengthwiseCache
from .depth import Adaptive, By, DepthPolicy
from .equal_subtrees import EqualTokens
from .layers import Layer

HASTE = 10


class LearnedChunk(DepthPolicy):
    """`Adaptive` with several chunks to choose from."""

    mixes = True
    uncached = "adaptive depth with a choice of chunks keeps no cache. Build the chosen one, or use_cache=False."
    undivided = "while its chunk is learned, a RegularGPT runs several trees. Build one with the chunk that was learned"

    def __init__(self, layers: Sequence[Layer], chunks: Sequence[int], by: By):
        super().__init__()
        if len(set(chunks)) != len(chunks) or len(chunks) < 2:
            raise Error(f"adaptive depth: a choice of chunks is a list of different ones, got {list(chunks)}.")
        self.layers = nn.ModuleList(layers)
        self.choice = nn.Parameter(torch.zeros(len(chunks)))
        # A tuple, and so no part of the module tree: the layers are counted once.
        self.trees = tuple(Adaptive(layers, chunk, by) for chunk in chunks)
        self.shares_subtrees = self.trees[0].shares_subtrees

    @property
    def probabilities(self) -> dict[int, float]:
        """What training thinks of each chunk."""
        p = self._logp().exp().tolist()
        return {tree.chunk: p for tree, p in zip(self.trees, p, strict=True)}

    @property
    def chunk(self) -> int:
        """The chunk in use."""
        return self.trees[int(self.choice.argmax())].chunk

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        level: Level = FIRST,
        last: bool = False,
        cache: LengthwiseCache | None = None,
        equal: EqualTokens | None = None,
        placed: Placed | None = None,
    ) -> Tensor:
        """(B,T,D), or in training (N,B,T,D), for the head to be applied to each."""
        if cache is not None:
            raise Error(self.uncached)
        trees = self.trees if self.training else [self.trees[int(self.choice.argmax())]]
        each = [tree(x, layout, replace(level, chunk=tree.chunk), last, equal=equal, placed=placed) for tree in trees]
        return torch.stack(each) if self.training else each[0]

    def mix(self, logits: Tensor) -> Tensor:
        """(N,B,T,S) logits of all trees to the (B,T,S) logarithm of their mixture."""
        return (logits.log_softmax(-1) + self._logp()[:, None, None, None]).logsumexp(0)

    def _logp(self) -> Tensor:
        return (HASTE * self.choice).log_softmax(0)
