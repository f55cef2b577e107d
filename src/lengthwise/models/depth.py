"""How many layers a sequence passes: a fixed number, or one that grows with its length.

`Adaptive` is L = max(1, ceil(log_C n)) groups, each the same K layers, group l at dilation C^l. In integers,
ceil(log_C n) is the number of l >= 0 with C^l < n. What n is, there are two ways to say:

by "sequence": n is the length of the whole sequence, as in the paper. Tokens appended past a power of C deepen the
    model, which changes the outputs at all earlier tokens too: one pass over a text differs there from reading it token
    by token, and nothing can be kept between steps.
by "position": n = t + 1 at position t. The outputs are causal, and the full pass is what decoding gives. The nodes of
    a position are still computed beyond its own depth, for later tokens read them; only its output is read early.

At the last position both are the same. When only that is asked for and every mixer dilates, group l matters only at
positions congruent to n-1 modulo C^l. On those alone it is the same layer at level 0, so after each group every C-th
token is kept, counted from the end: O(K C n) in all. With any other mixer all tokens pass all groups.

With `pad_tokens` the tokens kept so far are, before each group, padded on the left to a multiple of C with the model's
pad vector, and these pads pass the group's layers like tokens. It is defined for the last position alone.

Rows of different lengths in one batch have different depths: all groups run, and each row's answer is taken after its
own last one.

Shapes: B batch, T tokens, D model width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import jacrev, vmap

from ..errors import Error
from ..mixers import Layout, Level
from ..mixers.base import FIRST, from_end
from ..positions import Placed
from .cache import LengthwiseCache
from .equal_subtrees import DifferentNodes, EqualTokens, grouped, leaves
from .layers import Layer
from .padded_rows import align_right, last_real, sequence_lengths
from .split_tree import last_of_tree

By = Literal["sequence", "position"]
PIECE = 2**15
"""Tokens whose way up fits a cache; in larger steps fresh memory costs as much as arithmetic."""


def groups(length: int, chunk: int) -> int:
    """max(1, ceil(log_C length)), in integers.

    >>> [groups(n, 5) for n in (1, 5, 6, 25, 125, 126)]
    [1, 1, 2, 2, 3, 4]
    """
    return next(l for l in count(1) if chunk**l >= length)


class DepthPolicy(nn.Module):
    """The layers of a model and the order in which tokens pass them, with what the model must know of that."""

    layers: nn.ModuleList
    looks_up = False
    """Whether a table of the vocabulary can stand for equal tokens (equal_subtrees.py)."""
    shares_subtrees = False
    """Whether equal subtrees can be computed once (equal_subtrees.py)."""
    pad_tokens = False
    """Whether the model's pad vector is put before the tokens, as `Adaptive` can do it."""
    uncached: str | None = None
    """Why nothing can be kept between the steps of decoding; None where it can."""
    undivided: str | None = None
    """Why a sequence cannot be divided among ranks; None where it can."""


class Fixed(DepthPolicy):
    """Every layer once, in turn."""

    def __init__(self, layers: Sequence[Layer]):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.keeps_keys = any(layer.mixer.traits.keeps_keys for layer in layers)
        self.looks_up = layers[0].mixer.traits.looks_up

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
        """`equal`: given when equal tokens are to be computed once (equal_subtrees.py)."""
        if cache is not None:
            cache.extend(layout, placed, keep=self.keeps_keys)
        for k, layer in enumerate(self.layers):
            x = layer(x, layout, level, cache=cache, place=(0, k), equal=equal, placed=placed)
            equal = None
        if not last:
            return x
        plain = layout.real is None and layout.piece is None
        return x[:, -1:] if plain else last_real(x, layout)  # without a call, which counts where a token is decoded


class NodesOfGroup(NamedTuple):
    """The nodes of a tree that are as many groups up, equal subtrees once where they are computed once."""

    vectors: Tensor
    """(N,D)"""
    logits: Tensor | None
    """(N,G,M) what discrete nodes were chosen by."""
    ids: Tensor
    """(B,n) which of these stands where."""


class Adaptive(DepthPolicy):
    """The same K layers again and again, as often as the length asks for."""

    noise = forget = 0.0
    """The standard deviation of what is added to every entry of every node; trees have no gates that could forget."""
    _met: list[Tensor]
    """(M,D) the nodes of each group that were last read with noise."""
    noted: list[NodesOfGroup] | None = None
    """The nodes of the last tree, group after group; None: nobody asks for them."""
    _logits: Tensor | None = None
    """What the nodes that are noted next were chosen by."""

    def __init__(self, layers: Sequence[Layer], chunk: int, by: By, pad_tokens: bool = False):
        super().__init__()
        if chunk < 2:
            raise Error(f"adaptive depth: chunk must be at least 2, got {chunk}.")
        if by not in get_args(By):
            raise Error(f"adaptive depth: by is sequence or position, got {by!r}.")
        self.layers = nn.ModuleList(layers)
        self.chunk, self.by, self.pad_tokens = chunk, by, pad_tokens
        # Any other mixer reads tokens which the short way would have dropped.
        self.shortens = all(layer.mixer.traits.dilates for layer in layers)
        if pad_tokens and not self.shortens:
            raise Error("adaptive depth: pad_tokens is for sliding-dilated mixers alone. Leave it out.")
        self.uncached = _uncached(by, pad_tokens)
        self.undivided = 'missing="official" pads the whole sequence. Use "learned-pad"' if pad_tokens else None
        # With more layers a node reads past its own children, and pads that are tokens differ by what follows them.
        self.shares_subtrees = self.shortens and len(layers) == 1 and not pad_tokens

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
        """`equal`: as in `Fixed`; here the short way to the last position uses it."""
        if self.noise or self.noted is not None:
            self._met, self._level = [], level
        if cache is not None:
            return self._go_on(x, layout, level, last, cache, placed)
        if layout.piece is not None and last and self.shortens:
            depth = groups(layout.piece.total, self.chunk)
            return last_of_tree(list(self.layers), self.chunk, depth, x, layout.piece, level)
        if self.shortens and (last or (self.pad_tokens and x.shape[1] == 1)):
            return self._last(x, layout, level, None if equal is None else equal.ids)
        if self.pad_tokens:
            raise Error(
                f"adaptive depth: with pad_tokens (the official reading of padding) only the last position has an "
                f"answer, and all {x.shape[1]} were asked for. Ask with logits_to_keep=1, or use learned pads."
            )
        answer = x
        depth = groups(x.shape[1] if layout.piece is None else layout.piece.total, self.chunk)
        n = self._lengths(layout)
        for number in range(depth):
            told = level.at(number)
            for layer in self.layers[:-1]:
                x = layer(x, layout, told, placed=placed)
            x = self._nodes(x, layout, told, placed=placed)
            answer = self._deeper(answer, x, n, number)
        return last_real(answer, layout) if last else answer

    def _lengths(self, layout: Layout) -> Tensor | None:
        """(B,T) the n of each token's depth; None where all have that of the whole."""
        if self.by == "position":
            return layout.positions + 1
        return None if layout.plain else sequence_lengths(layout)

    def _deeper(self, answer: Tensor, x: Tensor, n: Tensor | None, number: int) -> Tensor:
        """The answers so far, replaced where this group is within a token's depth."""
        return x if n is None or number == 0 else torch.where((n > self.chunk**number)[..., None], x, answer)

    def _last(self, x: Tensor, layout: Layout, level: Level, tokens: Tensor | None) -> Tensor:
        C, depth = self.chunk, groups(x.shape[1], self.chunk)
        n = None
        if not layout.plain:
            if tokens is not None:
                tokens = align_right(tokens[..., None], layout)[0][..., 0]
            x, layout = align_right(x, layout)
            n = layout.positions[:, -1:] + 1
        nodes = leaves(x, tokens, layout) if tokens is not None and layout.sequences is None else None
        answer, number = x[:, -1:], 0
        while number < depth:
            # Tokens that stand C^l apart are next to each other by now, and the layers are themselves at level 0.
            above = nodes and grouped(nodes, C, self._nodes, level)
            if above:
                nodes, deeper, up = above, above.last, 1
            else:
                if nodes:
                    x, layout, nodes = nodes.all, nodes.layout, None
                x, layout, up = self._climb_far(x, layout, level)
                deeper = x[:, -1:]
            answer = self._deeper(answer, deeper, n, number)
            number += up
            if self.noted is not None:
                self._note(x, above or None)
        return answer

    def _note(self, x: Tensor, shared: DifferentNodes | None) -> None:
        assert self.noted is not None
        vectors = shared.table if shared else x.flatten(0, 1)
        ids = shared.ids if shared else torch.arange(len(vectors), device=x.device).view(x.shape[:2])
        logits, self._logits = self._logits, None
        self.noted.append(NodesOfGroup(vectors, None if logits is None else logits.flatten(0, 1), ids))

    def over(self, x: Tensor) -> NodesOfGroup:
        """The node over each C of these (N,C,D), as the last tree has it."""
        self._note(self._nodes(x, Layout.of(x), self._level.at(0), stride=self.chunk), None)
        return (self.noted or []).pop()

    def _climb_far(self, x: Tensor, layout: Layout, level: Level) -> tuple[Tensor, Layout, int]:
        """One group or, of a long text, as many as a piece of it that stays in the cache can climb alone."""
        C, T, up = self.chunk, x.shape[1], 1
        while 0 < x.shape[0] * C ** (up + 1) <= PIECE:
            up += 1
        apart = len(self.layers) == 1 and not self.pad_tokens and layout.plain and not torch.is_grad_enabled()
        if 2 * C**up > T or x.shape[0] * T < 2 * PIECE or not apart:
            return *self._climb(x, layout, level), 1
        tops = []
        for end in range(T, 0, -(C**up)):
            part = slice(max(0, end - C**up), end)
            # Positions of a plain row are its indices, and the first piece is the only one with tokens missing.
            piece, here = x[:, part], replace(layout, positions=layout.positions[:, : part.stop - part.start])
            for _ in range(up):
                piece, here = self._climb(piece, here, level)
            tops.append(piece)
        top = layout.pick(from_end(T, C**up))
        top = replace(top, positions=top.positions.div(C**up, rounding_mode="floor"))
        return torch.cat(tops[::-1], 1), top, up

    def _climb(self, x: Tensor, layout: Layout, level: Level) -> tuple[Tensor, Layout]:
        """One group, and of its outputs every C-th, counted from the end."""
        C = self.chunk
        if self.pad_tokens:
            x, layout = _pad_to_chunks(x, layout, level.pad, C)
        ends = from_end(x.shape[1], C)
        for layer in self.layers[:-1]:
            x = layer(x, layout, level)
        x = self._nodes(x, layout, level, stride=C)
        layout = layout.pick(ends)
        return x, replace(layout, positions=layout.positions.div(C, rounding_mode="floor"))

    def _nodes(self, x: Tensor, layout: Layout, level: Level, **options: Any) -> Tensor:
        """Returns a group's output, with noise where training adds some: to what discrete nodes choose by."""
        looked_at = self.noise > 0 or self.noted is not None
        layer: Any = self.layers[-1]
        x = layer(x, layout, level, continuous=looked_at, **options)
        if not looked_at:
            return x
        if self.noise:
            x = x + self.noise * torch.randn_like(x)
            self._met.append(x.flatten(0, 1))
        if layer.nodes is None:
            return x
        logits = layer.nodes.logits(x)
        if self.noted is not None:
            self._logits = logits
        return layer.nodes.chosen(logits)

    def unsteadiness(self, slope: float, states: int) -> Tensor:
        """Σ_i max(0, Σ_cj |∂y_i/∂x_cj| - slope)², y a node of the nodes x_c: the mean over so many that are drawn.

        The x_c are drawn apart from those of one group that were last read with noise, all C or fewer, behind pads.
        """
        if not self.shares_subtrees:
            raise Error(
                "training.steady: only trees of one layer a group (thickness 1) can be made steady. Leave it off."
            )
        met, layer = torch.cat(self._met), self.layers[0]
        sizes = torch.tensor([len(nodes) for nodes in self._met], device=met.device)

        def node(x: Tensor) -> Tensor:
            return layer(x[None], Layout.of(x[None]), self._level.at(0), stride=len(x))[0, -1]

        costs = []
        for taps in range(1, self.chunk + 1):
            group = torch.randint(len(sizes), (states, 1), device=met.device)
            within = (torch.rand(states, taps, device=met.device) * sizes[group]).long()
            x = met[(sizes.cumsum(0) - sizes)[group] + within].detach()
            slopes = vmap(jacrev(node))(x)
            costs.append(F.relu(slopes.abs().sum((-2, -1)) - slope).square().sum(-1).mean())
        return torch.stack(costs).mean()

    def _go_on(
        self, x: Tensor, layout: Layout, level: Level, last: bool, cache: LengthwiseCache, placed: Placed | None
    ) -> Tensor:
        """These tokens after those of the cache. When a group opens, all tokens so far pass it first."""
        if self.uncached:
            raise Error(self.uncached)
        T = x.shape[1]
        n = layout.positions + 1
        reach = cache.length + T if layout.plain else int(n.max())
        cache.extend(layout, placed, keep=True)
        depth, opened = max(groups(reach, self.chunk), cache.levels), cache.levels
        answer = x
        for number in range(depth):
            if number == opened and number > 0:
                x, layout = torch.cat([cache.top, x], 1), cache.layout
                placed = cache.placed(placed)
            told = level.at(number)
            for k, layer in enumerate(self.layers):
                x = layer(x, layout, told, cache=cache, place=(number, k), placed=placed)
            answer = self._deeper(answer, x[:, -T:], n, number)
        cache.close(x, depth)
        if not last:
            return answer
        return answer[:, -1:] if layout.real is None else last_real(answer, layout.pick(slice(-T, None)))


def _uncached(by: By, pad_tokens: bool) -> str | None:
    if pad_tokens:
        return (
            "adaptive depth: with pad_tokens only the last position has an answer, so nothing can be kept for the next "
            "token. Use learned pads and depth by position, or use_cache=False."
        )
    if by == "sequence":
        return (
            "adaptive depth by sequence keeps no cache: a token appended past a power of the chunk deepens the model, "
            "which changes all that came before. Use depth by position, or use_cache=False."
        )
    return None


def _pad_to_chunks(x: Tensor, layout: Layout, pad: Tensor | None, C: int) -> tuple[Tensor, Layout]:
    """Every row, which ends in the last column, padded on the left with `pad` to a multiple of C tokens."""
    B, T, _ = x.shape
    columns = -T % C
    counts = layout.positions[:, -1:] + 1
    pads = -counts % C
    if columns:
        x = torch.cat([x.new_zeros(B, columns, x.shape[2]), x], 1)
    positions = torch.arange(T + columns, device=x.device) - (T + columns) + counts + pads
    fresh = (positions >= 0) & (positions < pads)
    assert pad is not None
    x = torch.where(fresh[..., None], pad.to(x.dtype), x)
    real = None if layout.plain else positions >= 0
    return x, replace(layout, positions=positions, real=real)
