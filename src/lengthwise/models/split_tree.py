"""The last position of a RegularGPT whose sequence is divided among ranks: each rank makes the nodes that stand over
its own tokens alone, one exchange hands over those at its edges, and every rank makes the top of the tree from these.

Nodes are counted from the end of the sequence, as the tree is aligned there. With one layer a group the node i of level
l+1 is made of its own children alone,

    node[l+1, i] = layer(node[l, (i+1)C - 1], …, node[l, iC])

and where there is none before the first token, of what the layer puts there. A rank that holds the nodes lo … hi-1 of a
level makes those of the next whose children it has all, and hands over the others: at most 2(C-1) of each level, so
O(R C log n) in all, and a single one where all pieces have C^j tokens. With more layers a group nodes read past their
own children, and there is an exchange of C-1 nodes for each layer and level.

Shapes: R ranks, B batch, T tokens of the piece, n tokens of all, D model width, C chunk, M nodes that a rank hands
over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..mixers import Layout, Level
from ..ops import Piece


class Span(NamedTuple):
    """The nodes lo … hi-1 of a level, counted from the end."""

    level: int
    lo: int
    hi: int


def climbed(span: Span, n: int, C: int) -> Span:
    """The nodes one level up that stand over these alone; n: how many the level has in all.

    >>> climbed(Span(0, 1, 7), 9, 3), climbed(Span(0, 5, 9), 9, 2)
    (Span(level=1, lo=1, hi=2), Span(level=1, lo=3, hi=5))
    """
    # Before the first token no child is missing.
    return Span(span.level + 1, -(-span.lo // C), -(-span.hi // C) if span.hi == n else span.hi // C)


def climb_alone(span: Span, n: int, C: int, depth: int) -> tuple[list[Span], list[Span]]:
    """The spans of a rank level by level, and of those what it hands over."""
    spans, edges = [span], []
    while span.level < depth:
        up = climbed(span, n, C)
        if up.lo >= up.hi:
            break
        edges += [Span(span.level, span.lo, up.lo * C), Span(span.level, min(up.hi * C, span.hi), span.hi)]
        span, n = up, -(-n // C)
        spans.append(span)
    return spans, [edge for edge in (*edges, span) if edge.lo < edge.hi]


def last_of_tree(layers: Sequence[nn.Module], C: int, depth: int, x: Tensor, piece: Piece, level: Level) -> Tensor:
    """(B,1,D), on every rank, of this rank's tokens x (B,T,D)."""
    if len(layers) > 1:
        return _level_by_level(layers, C, depth, x, piece, level)
    (layer,), n, ranks = layers, piece.total, piece.ranks
    after = [n - sum(piece.lengths[: r + 1]) for r in range(ranks.size)]
    plans = [climb_alone(Span(0, lo, lo + T), n, C, depth) for lo, T in zip(after, piece.lengths, strict=True)]
    own = _edges(layer, C, x, *plans[ranks.rank], level)
    M = max(sum(e.hi - e.lo for e in edges) for _, edges in plans)
    handed = ranks.gathered(torch.cat([own, own.new_zeros(len(x), M - own.shape[1], x.shape[2])], 1))

    nodes: list[dict[int, Tensor]] = [{} for _ in range(depth + 1)]
    for part, (_, edges) in zip(handed, plans, strict=True):
        at = iter(part.unbind(1))
        for edge in edges:
            nodes[edge.level].update((i, next(at)) for i in range(edge.lo, edge.hi))
    for number in range(depth):
        nodes[number + 1] |= _parents(layer, C, nodes[number], n, level)
        n = -(-n // C)
    return nodes[depth][0][:, None]


def _level_by_level(layers: Sequence[nn.Module], C: int, depth: int, x: Tensor, piece: Piece, level: Level) -> Tensor:
    """As `last_of_tree`, where nodes read past their own children: every layer fetches C-1 nodes of earlier ranks."""
    ranks = piece.ranks
    for _ in range(depth):
        layout = Layout(Layout.of(x, past=piece.first).positions, piece=piece)
        for layer in layers:
            x = layer(x, layout, level)
        first = [(piece.total - 1 - sum(piece.lengths[:r])) % C for r in range(ranks.size)]
        lengths = tuple(len(range(i, n, C)) for i, n in zip(first, piece.lengths, strict=True))
        x, piece = x[:, first[ranks.rank] :: C], Piece(ranks, lengths)
    return piece.last_token(x)


def _edges(layer: nn.Module, C: int, x: Tensor, spans: list[Span], edges: list[Span], level: Level) -> Tensor:
    """(B,m,D): what this rank hands over, span by span, each counted from the end."""
    left, handed = list(edges), []
    for span, up in zip(spans, [*spans[1:], None], strict=True):
        while left and left[0].level == span.level:
            edge = left.pop(0)
            handed.append(x[:, span.hi - edge.hi : span.hi - edge.lo].flip(1))
        if up is not None:
            whole = x[:, span.hi - min(up.hi * C, span.hi) : span.hi - up.lo * C]
            x = layer(whole, Layout.of(whole), level, stride=C)
    return torch.cat(handed, 1) if handed else x[:, :0]


def _parents(layer: nn.Module, C: int, children: dict[int, Tensor], n: int, level: Level) -> dict[int, Tensor]:
    """The nodes one level up, by their number from the end; n: how many the children's level has in all."""
    parents = sorted({i // C for i in children})
    if not parents:
        return {}
    nothing = torch.zeros_like(next(iter(children.values())))
    rows = [
        torch.stack([children[i] if i < n else nothing for i in reversed(range(p * C, p * C + C))], 1) for p in parents
    ]
    B, device = len(nothing), nothing.device
    absent = torch.tensor([max(0, p * C + C - n) for p in parents], device=device).repeat_interleave(B)
    layout = Layout(torch.arange(C, device=device) - absent[:, None])
    if parents[-1] * C + C > n:
        layout = replace(layout, real=layout.positions >= 0)
    made = layer(torch.cat(rows), layout, level, stride=C)[:, 0]
    return dict(zip(parents, made.unflatten(0, (-1, B)).unbind(0), strict=True))
