"""Causal softmax attention, over `torch.nn.functional.scaled_dot_product_attention`.

    y_t = sum_{s <= t} softmax_s(q_t · k_s / sqrt(d) + bias_ts) v_s

No mask is built unless something asks for one: padding, packing, a position's bias, or several tokens after a state.

Shapes: B batch, T tokens, S keys, H heads, d head width, D model width.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..positions import Layout, Position
from .base import KeyValues, Mixer, Traits, check_heads, merge_heads, split_heads


class Softmax(Mixer):
    """`biases` on the query, key, value and output maps; `dropout` on the attention weights while training."""

    traits = Traits(takes_position=True)

    def __init__(
        self,
        width: int,
        *,
        heads: int = 8,
        biases: bool = True,
        dropout: float = 0.0,
        position: Position | None = None,
    ):
        super().__init__()
        check_heads("softmax", width, heads)
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width, bias=biases)
        self.out = nn.Linear(width, width, bias=biases)
        self.position = position
        self.traits = replace(self.traits, heads=heads)

    def forward(self, x: Tensor, *, layout: Layout, state: KeyValues | None = None) -> tuple[Tensor, KeyValues]:
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, -1))
        bare = q
        if self.position is not None:
            q, k = self.position.rotate(q, k, layout.positions, layout.positions)
        seen = KeyValues(k, v, layout) if state is None else state.then(k, v, layout)
        bias = None if self.position is None else self.position.bias(bare, layout.positions, seen.layout.positions)
        dropout = self.dropout if self.training else 0.0
        y = attend(q, seen.k, seen.v, layout, seen.layout, bias, dropout)
        return self.out(merge_heads(y)), seen


def attend(
    q: Tensor, k: Tensor, v: Tensor, layout: Layout, keys: Layout, bias: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """Causal attention of the last T of S tokens, each to its own sequence's real tokens."""
    T, S = q.shape[2], k.shape[2]
    if bias is None and keys.plain and (T == S or T == 1):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=T == S)
    mask = visible(layout, keys)
    if bias is not None:
        mask = bias.to(q.dtype).masked_fill(~mask, -torch.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)


def visible(layout: Layout, keys: Layout) -> Tensor:
    """(T,S) or (B,1,T,S) booleans: which keys a query may read. Every query reads itself, so no row is empty."""
    T, S = layout.positions.shape[1], keys.positions.shape[1]
    row = torch.arange(S - T, S, device=keys.positions.device)[:, None]
    column = torch.arange(S, device=keys.positions.device)
    mask = column <= row
    if keys.plain:
        return mask
    mask = mask[None, None]
    if keys.sequences is not None:
        own = keys.sequences[:, S - T :]
        mask = mask & (own[:, None, :, None] == keys.sequences[:, None, None, :])
    if keys.real is not None:
        mask = mask & keys.real[:, None, None, :]
    return mask | (column == row)
