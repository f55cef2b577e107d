"""Sliding-dilated attention as a layer: at depth group l, position m reads m, m - C^l, …, m - (C-1) C^l.

    y_m = sum_j softmax_j(q_m · k_{m - j C^l} / sqrt(d) + r_{h,j}) v_{m - j C^l}

r is learned, one scalar per head and tap. l is `level.number`, the group of an adaptive depth, and with `dilation` so
much more: in a stack of a fixed depth every layer can say its own. A tap before the first token reads a learned raw
vector through this layer's own key and value maps ("learned-pad", which learns far faster) or is left out ("drop"). The
vector is the layer's own, or with `shared_pad` the model's, handed over as `level.pad`.

Where the rows go on on other ranks the tokens read there are fetched: (C-1) min(C^l, T) of them at most for a piece of
T. Where C^l > T they come as blocks of T, one for each tap, so that taps are then T apart.

Shapes: B batch, T tokens, H heads, d head width, D model width, C chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import Error
from ..ops import Piece, sliding_dilated_attention
from ..options import OptionsOf, at_least
from ..positions import Layout
from .attention import AttentionMixer, KeyValues, merge_heads, queries_keys_values, split_heads
from .base import FIRST, Level, Traits, from_end


class SlidingDilated(AttentionMixer):
    name = "sliding-dilated"
    traits = Traits(dilates=True, keeps_keys=True, takes_level=True, splits=True)

    def __init__(
        self,
        width: int,
        *,
        chunk: Annotated[int, "How many tokens are combined into one."],
        missing: Annotated[
            Literal["learned-pad", "drop"], "What stands before the first token: a learned vector, or nothing."
        ],
        shared_pad: Annotated[bool, "Whether the learned vector is the model's, one for all layers."] = False,
        biases: Annotated[bool, "Whether the maps of the attention have biases."],
        dilation: Annotated[
            int, at_least(0), "The power of the chunk that keys stand apart by, in a group of level 0: the layer's own."
        ] = 0,
        **shared: Annotated[Any, OptionsOf(AttentionMixer, "heads")],
    ):
        super().__init__(width, biases=biases, **shared)
        if chunk < 2:
            raise Error(f"sliding-dilated: chunk must be at least 2, got {chunk}.")
        if missing not in ("learned-pad", "drop"):
            raise Error(f"sliding-dilated: missing is learned-pad or drop, got {missing!r}.")
        self.chunk, self.dilation = chunk, dilation
        self.traits = replace(self.traits, chunk=chunk, shares_pad=shared_pad and missing == "learned-pad")
        if dilation:
            # On the tokens of one group alone it still reads far ones, so that an adaptive depth drops none.
            self.traits = replace(self.traits, dilates=False)
        self.r = nn.Parameter(torch.zeros(self.heads, chunk))
        self.padded = missing == "learned-pad"
        self.pad = nn.Parameter(torch.randn(width)) if self.padded and not shared_pad else None

    def forward(
        self, x: Tensor, *, layout: Layout, state: KeyValues | None = None, level: Level = FIRST
    ) -> tuple[Tensor, KeyValues | None]:
        if layout.piece is not None:
            return self._over_ranks(x, layout.piece, layout, level), None
        q, k, v = queries_keys_values(self.qkv(x), self.heads)
        seen = KeyValues(k, v, layout) if state is None else state.then(k, v, layout)
        return self._read(q, seen, layout, level), seen

    def at(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, x: Tensor, *, layout: Layout, stride: int, level: Level = FIRST
    ) -> Tensor:
        places = from_end(x.shape[1], stride)
        q, k, v = self._some_queries(x, places)
        return self._read(q, KeyValues(k, v, layout), layout.pick(places), level, stride)

    def _some_queries(self, x: Tensor, places: slice) -> Iterator[Tensor]:
        """The queries of some tokens, and the keys and values of all."""
        if type(self.qkv) is nn.Linear:
            D = x.shape[-1]
            weight, bias = self.qkv.weight, self.qkv.bias
            q = F.linear(x[:, places], weight[:D], None if bias is None else bias[:D])
            k, v = F.linear(x, weight[D:], None if bias is None else bias[D:]).chunk(2, -1)
        else:
            # An adapter in its place does more than multiply by its weight.
            q, k, v = self.qkv(x).chunk(3, -1)
            q = q[:, places]
        return (split_heads(part, self.heads) for part in (q, k, v))

    def _over_ranks(self, x: Tensor, piece: Piece, layout: Layout, level: Level) -> Tensor:
        chunk, T = self.chunk, x.shape[1]
        distance = chunk ** (level.number + self.dilation)

        def wanted(first: int, T: int) -> list[range]:
            if distance <= T:
                return [range(first - (chunk - 1) * distance, first)]
            return [range(first - j * distance, first - j * distance + T) for j in range(chunk - 1, 0, -1)]

        x = torch.cat([piece.fetched(x, wanted), x], 1)
        if T == 0:
            return self.out(x)
        q, k, v = self._some_queries(x, slice(x.shape[1] - T, None))
        near = min(distance, T)
        return self._attend(q, k, v, layout.positions // distance * near, level, dilation=near)

    def _read(self, q: Tensor, seen: KeyValues, layout: Layout, level: Level, stride: int = 1) -> Tensor:
        """The output for queries (B,H,T,d) of this layout."""
        # Plain rows stand where their index among the keys says, which spares the op a look at the positions.
        positions = None if seen.layout.plain else layout.positions
        return self._attend(q, seen.k, seen.v, positions, level, stride=stride)

    def _attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        positions: Tensor | None,
        level: Level,
        stride: int = 1,
        dilation: int | None = None,
    ) -> Tensor:
        y = sliding_dilated_attention(
            q,
            k,
            v,
            self.r,
            chunk=self.chunk,
            level=level.number + self.dilation,
            pad=self._pad(level),
            positions=positions,
            stride=stride,
            dilation=dilation,
        )
        return self.out(merge_heads(y))

    def _pad(self, level: Level) -> tuple[Tensor, Tensor] | None:
        if not self.padded:
            return None
        raw = level.pad if self.traits.shares_pad else self.pad
        if raw is None:
            raise Error("sliding-dilated: shared_pad reads the model's vector from level.pad, which is None.")
        _, k, v = self.qkv(raw).chunk(3, -1)
        return k.unflatten(-1, (self.heads, -1)), v.unflatten(-1, (self.heads, -1))
