"""PaTH attention (Yang et al. 2025): positions are the products of the reflections that lie between query and key.

    H_t = I - β_t w_t w_tᵀ,    logit_ij = q_iᵀ H_i H_{i-1} … H_{j+1} k_j / sqrt(d)

    β = 2 σ(u · x + b), one for each head;    w = c / |c|,  c_t = sum_{s<3} taps_s ∘ (U V x)_{t-s},  V of 32 rows

Of one block of tokens all logits come of one triangular solve (stril: below the diagonal, B = diag β):

    L = I + stril(B W Wᵀ)
    tril(Q Kᵀ) - tril(Q Wᵀ) L⁻¹ stril(B W Kᵀ)

With `forgetting` (PaTH-FoX) FoX's gates are added, logit_ij + c_i - c_j (forgetting.py).

The keys before a block have passed every H up to it, and pass the block's at once, K <- K - K (L⁻¹ B W)ᵀ W, which is
what a decoded token does to the keys of the cache. So time is O(T² d), twice that of softmax attention, and memory is
that of T² d / (2 BLOCK) numbers a head for the keys of all blocks, where there are gradients (query_blocks.py).

All of it is in fp32 at least. The state is the keys, as turned by every H so far, the values, and the last two U V x.

Shapes: B batch, T tokens, S keys, H heads, C tokens of a block, d head width, D model width.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops.checks import without_autocast
from ..options import Inherited
from ..positions import Layout
from .attention import AttentionMixer, KeyValues, merge_heads, queries_keys_values, split_heads
from .base import Traits
from .forgetting import Gates, cumulated
from .growing_keys import GrowingKeyValues
from .query_blocks import made_again
from .short_convolution import Recent, convolved, new_taps
from .softmax import visible

RANK, TAPS = 32, 3
LEAST = 1e-3
"""The norm below which w is shorter than 1, lest a token of zeros, whose c is 0, have a gradient beyond all bounds."""
BLOCK = 128


class PathState(NamedTuple):
    croppable = False
    keys: KeyValues | GrowingKeyValues
    """The keys as every reflection so far has turned them."""
    recent: Recent

    def select(self, rows: Tensor) -> PathState:
        """These rows, in this order."""
        # Rows are selected in a model's cache, where keys grow in place.
        assert isinstance(self.keys, GrowingKeyValues)
        return PathState(self.keys.select(rows), self.recent.select(rows))


class Reflections(nn.Module):
    """w (B,H,T,d) and beta (B,H,T) of tokens (B,T,D), and what the next ones need."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.down = nn.Linear(width, RANK, bias=False)
        self.up = nn.Linear(RANK, width, bias=False)
        self.taps = new_taps(TAPS, width)
        self.strength = nn.Linear(width, heads)

    def forward(self, x: Tensor, layout: Layout, before: Recent | None) -> tuple[Tensor, Tensor, Recent]:
        kind = torch.promote_types(x.dtype, torch.float32)
        beta = 2 * self.strength(x).to(kind).sigmoid()
        c, recent = convolved(self.up(self.down(x)), self.taps, layout, before)
        return F.normalize(split_heads(c, self.heads).to(kind), dim=-1, eps=LEAST), beta.mT, recent


class PaTH(AttentionMixer):
    """Softmax attention whose keys are reflected by every token between them and the query."""

    name = "path"
    traits = Traits(keeps_keys=True, knows_order="every token between a key and the query turns the key")

    def __init__(
        self,
        width: int,
        *,
        forgetting: Annotated[bool, "Whether gates forget what lies before a token besides, as FoX's do."] = False,
        **shared: Inherited,
    ):
        super().__init__(width, **shared)
        self.reflections = Reflections(width, self.heads)
        self.gates = Gates(width, self.heads, bias=0.0) if forgetting else None

    def forward(self, x: Tensor, *, layout: Layout, state: PathState | None = None) -> tuple[Tensor, PathState]:
        q, k, v = queries_keys_values(self.qkv(x), self.heads)
        w, beta, recent = self.reflections(x, layout, None if state is None else state.recent)
        q, k = q.to(w.dtype), k.to(w.dtype)
        seen = KeyValues(k, v, layout) if state is None else state.keys.then(k, v, layout)
        if self.gates is not None:
            seen = seen.with_gates(cumulated(self.gates(x), seen.gates))
        with without_autocast(x):
            y, turned = self._read(q, seen, w, beta, layout)
        return self.out(merge_heads(y)), PathState(seen.with_turned(turned), recent)

    def _read(
        self, q: Tensor, seen: KeyValues | GrowingKeyValues, w: Tensor, beta: Tensor, layout: Layout
    ) -> tuple[Tensor, Tensor]:
        """The output (B,H,T,d), and all keys as the last token leaves them."""
        T, S = q.shape[2], seen.k.shape[2]
        turned, parts = seen.k[:, :, : S - T], []
        for start in range(0, T, BLOCK):
            rows = slice(start, min(start + BLOCK, T))
            own, so_far = slice(S - T + start, S - T + rows.stop), slice(S - T + rows.stop)
            read = partial(self._read_block, layout.pick(rows), seen.layout.pick(so_far))
            inputs = (q[:, :, rows], seen.k[:, :, own], w[:, :, rows], beta[:, :, rows, None])
            c = None if seen.gates is None else seen.gates[:, :, so_far]
            y, turned = made_again(T > BLOCK, read, *inputs, turned, seen.v[:, :, so_far], c)
            parts.append(y)
        return parts[0] if len(parts) == 1 else torch.cat(parts, 2), turned

    def _read_block(
        self,
        layout: Layout,
        keys: Layout,
        Q: Tensor,
        K: Tensor,
        W: Tensor,
        beta: Tensor,
        earlier: Tensor,
        v: Tensor,
        c: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """The output of these tokens, and all keys so far as the last of them leaves them."""
        d = Q.shape[-1]
        B_W = beta * W
        sides = torch.cat([B_W, (B_W @ K.mT).tril(-1)], -1)
        # The diagonal of L is 1, and of what is given nothing on or above it is read.
        solved = torch.linalg.solve_triangular(B_W @ W.mT, sides, upper=False, unitriangular=True)
        U, X = solved[..., :d], solved[..., d:]
        Q_W = (Q @ W.mT).tril()
        logits = torch.cat([(Q - Q_W @ U) @ earlier.mT, Q @ K.mT - Q_W @ X], -1) * d**-0.5
        if c is not None:
            # Softmax ignores what is the same for all keys: c is counted from the last one, which needs no gradient.
            logits = logits + (c[..., -1:].detach() - c).to(logits.dtype).unsqueeze(-2)
        A = logits.masked_fill(~visible(layout, keys), -torch.inf).softmax(-1)
        A = F.dropout(A, self.dropout, self.training)
        turned = torch.cat([earlier - (earlier @ U.mT) @ W, K - X.mT @ W], 2)
        return A.to(v.dtype) @ v, turned
