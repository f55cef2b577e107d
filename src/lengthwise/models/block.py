"""One layer of the shell: a mixer, and around it what `Block` asks for.

    pre:   h = x + mixer(norm(x));   y = h + W2 act(W1 norm(h))
    post:  h = norm(x + mixer(x));   y = norm(h + W2 act(W1 h))
    bare:  y = mixer(x)

With a `stride` only every stride-th token, counted from the end, goes on from the mixer and comes out. With a `memory`
the tokens follow those whose state it holds.

Shapes: B batch, T tokens, D model width.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from ..mixers import Mixer, Where
from ..mixers.base import from_end
from .cache import Memory
from .config import Block


class BareLayer(nn.Module):
    """The mixer alone, as recurrent networks are stacked."""

    def __init__(self, width: int, mixer: Mixer, block: Block, dropout: float):
        super().__init__()
        self.mixer = mixer
        self.dropout = dropout

    def forward(self, x: Tensor, where: Where, stride: int = 1, memory: Memory | None = None) -> Tensor:
        y = _mix(self.mixer, x, where, stride, memory)
        return F.dropout(y, self.dropout, self.training)


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

    def forward(self, x: Tensor, where: Where, stride: int = 1, memory: Memory | None = None) -> Tensor:
        y = _mix(self.mixer, self.mixer_norm(x) if self.pre else x, where, stride, memory)
        x = x[:, from_end(x.shape[1], stride)] + F.dropout(y, self.dropout, self.training)
        if self.pre:
            return x + self._feed(self.feed_norm(x))
        x = self.mixer_norm(x)
        return self.feed_norm(x + self._feed(x))

    def _feed(self, x: Tensor) -> Tensor:
        return F.dropout(self.down(self.activation(self.up(x))), self.dropout, self.training)


def _mix(mixer: Mixer, x: Tensor, where: Where, stride: int, memory: Memory | None) -> Tensor:
    if stride > 1:
        return mixer.at(x, where=where, stride=stride)
    if memory is None:
        return mixer(x, where=where)[0]
    y, memory.state = mixer(x, where=where, state=memory.state)
    return y


LAYERS = {"transformer": TransformerLayer, "bare": BareLayer}
