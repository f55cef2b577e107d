"""How many layers a sequence passes: a fixed number, or one that grows with its length.

`Adaptive` is L = max(1, ceil(log_C n)) groups for a sequence of n tokens, each group the same K layers, group l at
dilation C^l. In integers, ceil(log_C n) is the number of l >= 0 with C^l < n.

When only the last token is asked for and every mixer dilates, group l matters only at positions congruent to n-1 modulo
C^l. On those alone it is the same layer at level 0, so after each group every C-th token is kept, counted from the end:
O(K C n) in all. With any other mixer all tokens pass all groups, and the last is taken.

Depth is taken from the length of the whole sequence, so the outputs are causal only as long as it stays: tokens
appended past a power of C deepen the model, which changes the outputs at all earlier tokens too, and one pass over a
text differs there from reading it token by token.

Rows of different lengths in one batch have different depths: all groups run, and each row's answer is taken after its
own last one.

Shapes: B batch, T tokens, D model width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from ..errors import Error
from ..mixers import Where
from ..mixers.base import from_end


def groups(length: int, chunk: int) -> int:
    """max(1, ceil(log_C length)), in integers.

    >>> [groups(n, 5) for n in (1, 5, 6, 25, 125, 126)]
    [1, 1, 2, 2, 3, 4]
    """
    count = 1
    while chunk**count < length:
        count += 1
    return count


class Fixed(nn.Module):
    """Every layer once, in turn."""

    def __init__(self, layers: Sequence[nn.Module]):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, where: Where, last: bool = False) -> Tensor:
        for layer in self.layers:
            x = layer(x, where)
        return last_real(x, where) if last else x


class Adaptive(nn.Module):
    """The same K layers again and again, as often as the length asks for."""

    def __init__(self, layers: Sequence[nn.Module], chunk: int):
        super().__init__()
        if chunk < 2:
            raise Error(f"adaptive depth: chunk must be at least 2, got {chunk}.")
        self.layers = nn.ModuleList(layers)
        self.chunk = chunk
        # Any other mixer reads tokens which the short way would have dropped.
        self.shortens = all(getattr(layer.mixer, "dilates", False) for layer in layers)

    def forward(self, x: Tensor, where: Where, last: bool = False) -> Tensor:
        if last and self.shortens:
            return self._last(x, where)
        C, answer = self.chunk, x
        n = None if where.plain else sequence_lengths(where)
        for level in range(groups(x.shape[1], C)):
            for layer in self.layers:
                x = layer(x, where.at_level(level))
            answer = x if n is None or level == 0 else torch.where((n > C**level)[..., None], x, answer)
        return last_real(answer, where) if last else answer

    def _last(self, x: Tensor, where: Where) -> Tensor:
        C, depth = self.chunk, groups(x.shape[1], self.chunk)
        n = None
        if not where.plain:
            x, where = align_right(x, where)
            n = where.positions[:, -1:] + 1
        answer = x[:, -1:]
        for level in range(depth):
            kept = from_end(x.shape[1], C)
            for layer in self.layers[:-1]:
                x = layer(x, where)
            x = self.layers[-1](x, where, stride=C)
            where = where.pick(kept)
            where = replace(where, positions=where.positions.div(C, rounding_mode="floor"))
            deeper = x[:, -1:]
            answer = deeper if n is None or level == 0 else torch.where((n > C**level)[..., None], deeper, answer)
        return answer


def sequence_lengths(where: Where) -> Tensor:
    """(B,T): how long the sequence is to which a token belongs."""
    real = torch.ones_like(where.positions) if where.valid is None else where.valid.long()
    if where.segments is None:
        return real.sum(1, keepdim=True).expand_as(real)
    segments = where.segments
    # Segment numbers may be any integers; compared among themselves they need no table.
    same = segments[:, :, None] == segments[:, None, :]
    return (same & real.bool()[:, None, :]).sum(-1)


def last_column(where: Where) -> Tensor:
    """(B,) the column of each row's last real token."""
    assert where.valid is not None
    return where.valid.shape[1] - 1 - where.valid.flip(1).long().argmax(1)


def last_real(x: Tensor, where: Where) -> Tensor:
    """(B,1,D): each row at its last real token."""
    if where.valid is None:
        return x[:, -1:]
    return x.gather(1, last_column(where)[:, None, None].expand(-1, -1, x.shape[-1]))


def align_right(x: Tensor, where: Where) -> tuple[Tensor, Where]:
    """The same rows, padding moved to the left, so that all of them end in the last column."""
    if where.valid is None:
        return x, where
    T = x.shape[1]
    source = torch.arange(T, device=x.device) - (T - 1 - last_column(where))[:, None]
    inside, source = source >= 0, source.clamp(min=0)
    end = where.positions.gather(1, last_column(where)[:, None])
    moved = replace(
        where,
        positions=end - torch.arange(T - 1, -1, -1, device=x.device),
        valid=where.valid.gather(1, source) & inside,
        segments=None if where.segments is None else where.segments.gather(1, source),
    )
    if where.segments is not None:
        moved = replace(moved, positions=torch.where(inside, where.positions.gather(1, source), -1))
    return x.gather(1, source[..., None].expand(-1, -1, x.shape[-1])), moved
