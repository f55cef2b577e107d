"""One layer of the shell: a mixer, and around it what `Block` asks for.

    transformer, pre:    h = x + mixer(norm(x));   y = h + W2 act(W1 norm(h))
    transformer, post:   h = norm(x + mixer(x));   y = norm(h + W2 act(W1 h))
    residual:            y = x + mixer(norm(x))
    normed:              y = mixer(norm(x))
    bare:                y = mixer(x)

`level` is what an adaptive depth tells its mixers. With a `stride` only every stride-th token, counted from the end,
goes on from the mixer and comes out. With a `memory` the tokens follow those whose state it holds. With `words` what
stands before the mixer's recurrence is done once for every word of their table.

Shapes: B batch, T tokens, D model width.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ..mixers import Layout, Level, Mixer
from ..mixers.base import FIRST, from_end
from .cache import Memory
from .config import Block
from .words import Words


class MixerLayer(nn.Module):
    """The mixer alone, as recurrent networks are stacked, or after a norm and with a residual."""

    def __init__(self, width: int, mixer: Mixer, block: Block, dropout: float):
        super().__init__()
        self.mixer = mixer
        self.mixer_norm = nn.Identity() if block.kind == "bare" else nn.LayerNorm(width)
        self.residual = block.kind == "residual"
        self.dropout = dropout

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        level: Level = FIRST,
        stride: int = 1,
        memory: Memory | None = None,
        words: Words | None = None,
    ) -> Tensor:
        y = _mix(self.mixer, self.mixer_norm, x, layout, level, stride, memory, words)
        y = F.dropout(y, self.dropout, self.training)
        return x[:, from_end(x.shape[1], stride)] + y if self.residual else y


class TransformerLayer(nn.Module):
    """Mixer and feed-forward."""

    def __init__(self, width: int, mixer: Mixer, block: Block, dropout: float):
        super().__init__()
        self.mixer = mixer
        self.pre = block.norm == "pre"
        self.activation = {"gelu": F.gelu, "relu": F.relu}[block.activation]
        self.mixer_norm = nn.LayerNorm(width)
        self.feed_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, block.expansion * width, bias=block.biases)
        self.down = nn.Linear(block.expansion * width, width, bias=block.biases)
        self.dropout = dropout

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        level: Level = FIRST,
        stride: int = 1,
        memory: Memory | None = None,
        words: Words | None = None,
    ) -> Tensor:
        y = _mix(self.mixer, self.mixer_norm if self.pre else None, x, layout, level, stride, memory, words)
        x = x[:, from_end(x.shape[1], stride)] + F.dropout(y, self.dropout, self.training)
        if self.pre:
            return x + self._feed(self.feed_norm(x))
        x = self.mixer_norm(x)
        return self.feed_norm(x + self._feed(x))

    def _feed(self, x: Tensor) -> Tensor:
        return F.dropout(self.down(self.activation(self.up(x))), self.dropout, self.training)


def _mix(
    mixer: Mixer,
    norm: nn.Module | None,
    x: Tensor,
    layout: Layout,
    level: Level,
    stride: int,
    memory: Memory | None,
    words: Words | None,
) -> Tensor:
    """The mixer on norm(x)."""
    table = None if words is None else words.table
    read = x if table is None else table
    read = read if norm is None else norm(read)
    options: dict[str, Any] = {"level": level} if mixer.traits.takes_level else {}
    if stride > 1:
        return mixer.at(read, layout=layout, stride=stride, **options)
    if words is not None and table is not None:
        options["index"] = words.tokens
    y, state = mixer(read, layout=layout, state=None if memory is None else memory.state, **options)
    if memory is not None:
        memory.state = state
    return y


LAYERS = {"transformer": TransformerLayer, "residual": MixerLayer, "normed": MixerLayer, "bare": MixerLayer}
