"""Attention whose weights no fused kernel makes: a block of queries at a time.

So B·H·ROWS·S weights are held at once, not B·H·T·S. The backward pass makes those of a block again, from its queries
and keys, wherever there is more than one block.

Shapes: B batch, T queries, S keys, H heads, d head width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..ops.checks import mapped, without_autocast
from ..positions import Layout
from .attention import AttentionMixer, KeyValues, merge_heads, queries_keys_values
from .softmax import visible

ROWS = 256


class ReadInBlocks(AttentionMixer):
    """Attention of each token to its own sequence's real tokens up to itself. A subclass gives `read`."""

    def read(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """The output (B,H,T,d) of queries, keys and values; `mask` (T,S) or (B,1,T,S): which a query may read."""
        raise NotImplementedError

    def forward(self, x: Tensor, *, layout: Layout, state: KeyValues | None = None) -> tuple[Tensor, KeyValues]:
        q, k, v = queries_keys_values(self.qkv(x), self.heads)
        seen = KeyValues(k, v, layout) if state is None else state.then(k, v, layout)
        with without_autocast(x):
            parts = [self._block(q, seen, layout, start) for start in range(0, q.shape[2], ROWS)]
        return self.out(merge_heads(parts[0] if len(parts) == 1 else torch.cat(parts, 2))), seen

    def _block(self, q: Tensor, seen: KeyValues, layout: Layout, start: int) -> Tensor:
        T, S = q.shape[2], seen.k.shape[2]
        rows = slice(start, min(start + ROWS, T))
        so_far = slice(S - T + rows.stop)

        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return self.read(q, k, v, visible(layout.pick(rows), seen.layout.pick(so_far)))

        return made_again(T > ROWS, run, q[:, :, rows], seen.k[:, :, so_far], seen.v[:, :, so_far])


def made_again(again: bool, run: Callable[..., Any], *inputs: Tensor | None) -> Any:
    """`run(*given)`; with `again`, all but its result is forgotten and made again for the backward pass."""
    # torch.func cannot run the hooks by which the second time happens.
    if not again or not torch.is_grad_enabled() or mapped(*inputs):
        return run(*inputs)
    return checkpoint(run, *inputs, use_reentrant=False)


def sums_to_the_end(x: Tensor) -> Tensor:
    """Returns, for each entry of the last dimension, the sum of it and all after it, which is exact near the end.

    >>> sums_to_the_end(torch.tensor([1, 2, 4])).tolist()
    [7, 6, 4]
    """
    return x.flip(-1).cumsum(-1).flip(-1)
