"""One layer of the shell: a mixer, and around it what `Block` asks for.

    transformer, pre:    h = x + mixer(norm(x));   y = h + W2 act(W1 norm(h))
    swiglu:              … W2 (silu(W3 norm(h)) * W1 norm(h))
    transformer, post:   h = norm(x + mixer(x));   y = norm(h + W2 act(W1 h))
    residual:            y = x + mixer(norm(x))
    normed:              y = mixer(norm(x))
    bare:                y = mixer(x)

The last layer of a group of adaptive depth may make its output discrete (discrete_nodes.py).

Shapes: B batch, T tokens, D model width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ..mixers import Layout, Level, Mixer
from ..mixers.base import FIRST, from_end
from ..positions import Placed
from .cache import LengthwiseCache
from .config import Block
from .discrete_nodes import DiscreteNodes
from .equal_subtrees import EqualTokens


def make_norm(block: Block, width: int) -> nn.Module:
    return nn.RMSNorm(width, eps=1e-5) if block.normalisation == "rms" else nn.LayerNorm(width)


class Layer(nn.Module):
    """A mixer, with a feed-forward after it where the block's kind is "transformer"."""

    gradient_checkpointing = False
    """Whether training computes the layer anew for the backward pass: set, with the way to do so, by transformers."""
    _gradient_checkpointing_func: Callable[..., Tensor]

    nodes: DiscreteNodes | None
    """What makes its output one of finitely many vectors; None: nothing does."""

    def __init__(self, width: int, mixer: Mixer, block: Block, dropout: float):
        super().__init__()
        self.mixer = mixer
        self.residual = block.kind in ("transformer", "residual")
        self.feeds = block.kind == "transformer"
        self.post = self.feeds and block.norm == "post"
        self.mixer_norm = nn.Identity() if block.kind == "bare" else make_norm(block, width)
        if self.feeds:
            assert block.activation
            self.activation = {"gelu": F.gelu, "relu": F.relu, "swiglu": F.silu}[block.activation]
            self.feed_norm = make_norm(block, width)
            self.up = nn.Linear(width, block.hidden(width), bias=block.biases)
            gated = block.activation == "swiglu"
            self.gate = nn.Linear(width, block.hidden(width), bias=block.biases) if gated else None
            self.down = nn.Linear(block.hidden(width), width, bias=block.biases)
        self.dropout = dropout
        self.nodes = None

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        level: Level = FIRST,
        *,
        stride: int = 1,
        cache: LengthwiseCache | None = None,
        place: tuple[int, int] = (0, 0),
        equal: EqualTokens | None = None,
        placed: Placed | None = None,
        checkpointed: bool = False,
        continuous: bool = False,
    ) -> Tensor:
        """`level`: what an adaptive depth tells its mixers.

        `stride`: only every stride-th token, counted from the end, goes on from the mixer and comes out.
        `cache`: the tokens follow those whose state it holds for this `place`, (group, layer).
        `equal`: its table stands for x, so that what precedes the mixer's recurrence is done once for every word.
        `placed`: for mixers that compare queries with keys.
        `checkpointed`: gradient checkpointing runs this, once now and once in the backward pass.
        `continuous`: what discrete nodes would choose by, before they do.
        """
        if self.gradient_checkpointing and self.training and cache is None and equal is None and not checkpointed:
            run = partial(self.forward, stride=stride, placed=placed, checkpointed=True, continuous=continuous)
            return self._gradient_checkpointing_func(run, x, layout, level)
        traits = self.mixer.traits
        told: dict[str, Any] = {"level": level} if traits.takes_level else {}
        if traits.takes_ends:
            told["ends"] = cache is not None
        if traits.takes_position:
            told["placed"] = placed
        read = x
        if equal is not None and equal.table is not None:
            read, told["index"] = equal.table, equal.ids
        if not self.post:
            read = self.mixer_norm(read)
        if stride > 1:
            y = self.mixer.at(read, layout=layout, stride=stride, **told)
            x = x[:, from_end(x.shape[1], stride)]
        elif cache is None:
            y, _ = self.mixer(read, layout=layout, **told)
        else:
            before = cache.states.get(place)
            y, state = self.mixer(read, layout=layout, state=before, **told)
            if state is None or state is not before:  # what grew in place is the cache's already
                cache.keep(place, state)
        y = F.dropout(y, self.dropout, self.training)
        x = x + y if self.residual else y
        if not self.feeds:
            return x
        if self.post:
            x = self.mixer_norm(x)
        read = x if self.post else self.feed_norm(x)
        if self.gate is None:
            y = self.down(self.activation(self.up(read)))
        else:
            y = self.down(self.activation(self.gate(read)) * self.up(read))
        x = x + F.dropout(y, self.dropout, self.training)
        x = self.feed_norm(x) if self.post else x
        return x if self.nodes is None or continuous else self.nodes(x)
