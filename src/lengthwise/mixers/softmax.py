"""Causal softmax attention, over `torch.nn.functional.scaled_dot_product_attention`.

    y_t = sum_{s <= t} softmax_s(q_t · k_s / sqrt(d) + bias_ts) v_s

With `log_scale` the queries grow with the number n of keys that they read (SSMax, Nakanishi 2025), so that the weights
stay as sharp among many keys as among few:

    q_t  becomes  a ln(n_t) q_t,    n_t = t + 1 in its own sequence

a is learned, one for each head, and 1 / ln(log_scale) at first. A first token's queries become 0, and
its one weight is 1 all the same.

With a `window` N a query reads the last N tokens of its sequence alone, itself among them.

Without absolute positions all tokens of a run that begins a string have one output: they read the mean of equal values.

No mask is built unless something asks for one: padding, packing, a position's bias, or several tokens after a state.
Where the bias is by key alone, packing alone needs one: `ops.key_biased_attention` goes on from a state, and padding is
keys of bias -inf.

Shapes: B batch, T tokens, S keys, H heads, d head width, D model width.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops import key_biased_attention
from ..options import OptionsOf, at_least
from ..positions import Bias, DenseBias, KeyBias, Layout, Placed, Position
from .attention import AttentionMixer, KeyValues, own_position, queries_keys_values, rotated, scored
from .base import Traits
from .pro_block import HeadNorm, OutputGate, TokenShift


class Softmax(AttentionMixer):
    """`biases` on the query, key, value and output maps; `dropout` on the attention weights while training."""

    name = "softmax"
    traits = Traits(keeps_keys=True, takes_position=True)

    def __init__(
        self,
        width: int,
        *,
        log_scale: Annotated[
            int | None,
            at_least(2),
            "Logits grow with the logarithm of the number of keys, and are at first as without it at so many; None: "
            "they do not grow.",
        ] = None,
        qk_norm: Annotated[bool, "Whether queries and keys are normalised, each head by itself."] = False,
        window: Annotated[
            int | None, at_least(1), "How many tokens a query reads, itself among them; None: all."
        ] = None,
        positioned: Annotated[bool, "Whether the model's position encoding acts in this layer."] = True,
        position: Annotated[
            Position | None, "An encoding of the layer's own; None: the model's, handed over with each call."
        ] = None,
        **shared: Annotated[Any, OptionsOf(AttentionMixer, "heads biases dropout")],
    ):
        super().__init__(width, **shared)
        self.q_norm = HeadNorm(width, self.heads) if qk_norm else None
        self.k_norm = HeadNorm(width, self.heads) if qk_norm else None
        # What the Pro block of forgetting attention adds.
        self.shift: TokenShift | None = None
        self.gated: OutputGate | None = None
        self.a = None if log_scale is None else nn.Parameter(torch.full((self.heads,), 1 / math.log(log_scale)))
        self.position, self.window, self.positioned = position, window, positioned

    def forward(
        self, x: Tensor, *, layout: Layout, state: KeyValues | None = None, placed: Placed | None = None
    ) -> tuple[Tensor, KeyValues]:
        q, seen, bias = self.compared(x, layout, state, placed)
        y = self._attend(q, seen, layout, bias)
        y = y if self.gated is None else self.gated(x, y)
        return self.out(y.transpose(1, 2).flatten(-2)), seen

    def compared(
        self, x: Tensor, layout: Layout, state: KeyValues | None, placed: Placed | None
    ) -> tuple[Tensor, KeyValues, Bias | None]:
        """The queries of these tokens, all keys and values so far, and the bias of their logits."""
        q, k, v = queries_keys_values(self.qkv(x), self.heads)
        last = None
        if self.shift is not None:
            k, v, last = self.shift(x, k, v, layout, None if state is None else state.last)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        own = placed if self.position is None else own_position(self.position, placed, layout)
        acting, bare, places, bias = own if self.positioned else None, q, None, None
        if acting is not None:
            q, k = rotated(q, k, acting)
            places = acting.places
        seen = KeyValues(k, v, layout, places) if state is None else state.then(k, v, layout, places)
        if last is not None:
            seen = seen.with_last(last)
        if self.a is not None:
            q = _grown(q, self.a, layout)
        if acting is not None:
            q, bias = scored(q, bare, seen.k, acting, seen.places)
        return q, seen, bias

    def _attend(self, q: Tensor, seen: KeyValues, layout: Layout, bias: Bias | None) -> Tensor:
        """Each of the last T of S tokens reads its own sequence's real tokens up to itself, or a window of them."""
        k, v, keys, dropout = seen.k, seen.v, seen.layout, self.dropout if self.training else 0.0
        T, S = q.shape[2], k.shape[2]
        usual = keys.sequences is None and (self.window is None or self.window >= S)
        # A string of one token with a bias goes the way of longer ones, which torch.func can map with gradients.
        alone = T in (1, S) if bias is None else T == 1 < S
        if usual and keys.real is None and alone:
            # Causality alone says what may be read. torch.compile wants the flag from a branch, not T == S itself.
            if bias is None:
                causal: dict[str, Any] = {"is_causal": True} if T == S else {}
                return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, **causal)
            mask = bias.values if isinstance(bias, DenseBias) else bias.dense()
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype), dropout_p=dropout)
        if usual and isinstance(bias, KeyBias):
            values = bias.values if keys.real is None else bias.values.masked_fill(~keys.real[:, None], -torch.inf)
            # Under autocast what a position turns may come out wider than the values.
            return key_biased_attention(q.to(v.dtype), k.to(v.dtype), v, values, dropout=dropout)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask(q, seen, layout, bias), dropout_p=dropout)

    def mask(self, q: Tensor, seen: KeyValues, layout: Layout, bias: Bias | None) -> Tensor:
        """Which of S keys each query may read, or what is added to its logits."""
        T, S = q.shape[2], seen.k.shape[2]
        mask = visible(layout, seen.layout)
        if self.window is not None and self.window < S:
            mask = mask & torch.ones_like(mask).triu(S - T - self.window + 1)
        if bias is None:
            return mask
        dense = bias.dense()
        if isinstance(bias, KeyBias) and q.dtype in (torch.float16, torch.bfloat16):
            # Counted from each query's own, which softmax ignores: half precision has digits for near keys alone.
            dense = dense - bias.values[..., S - T :, None].detach()
        return dense.to(q.dtype).masked_fill(~mask, -torch.inf)


def _grown(q: Tensor, a: Tensor, layout: Layout) -> Tensor:
    """a ln(n) q, never in half precision, where no logarithm tells 1,000 keys from 1,001."""
    a = a.to(torch.promote_types(a.dtype, torch.float32))
    n = (layout.positions + 1).clamp(min=1).to(a.dtype)
    return (q * (a[:, None] * n.log()[:, None])[..., None]).to(q.dtype)


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
