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

from ..ops.checks import mapped
from ..positions import Layout
from .softmax import visible

ROWS = 256


Read = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""The output (B,H,T,d) of queries, keys, values and a mask, (T,S) or (B,1,T,S), true where a query may read."""


def in_blocks(read: Read, q: Tensor, k: Tensor, v: Tensor, layout: Layout, keys: Layout) -> Tensor:
    """Attention of the last T of S tokens, each to its own sequence's real tokens up to itself."""
    T, S = q.shape[2], k.shape[2]

    def block(start: int) -> Tensor:
        rows = slice(start, min(start + ROWS, T))
        seen = slice(S - T + rows.stop)

        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return read(q, k, v, visible(layout.pick(rows), keys.pick(seen)))

        return made_again(T > ROWS, run, q[:, :, rows], k[:, :, seen], v[:, :, seen])

    parts = [block(start) for start in range(0, T, ROWS)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, 2)


def made_again(again: bool, run: Callable[..., Any], *given: Tensor | None) -> Any:
    """`run(*given)`; with `again`, all but its result is forgotten and made again for the backward pass."""
    # torch.func cannot run the hooks by which the second time happens.
    if not again or not torch.is_grad_enabled() or mapped(*given):
        return run(*given)
    return checkpoint(run, *given, use_reentrant=False)


def sums_to_the_end(x: Tensor) -> Tensor:
    """Of each entry of the last dimension, the sum of it and all after it, which is exact near the end.

    >>> sums_to_the_end(torch.tensor([1, 2, 4])).tolist()
    [7, 6, 4]
    """
    return x.flip(-1).cumsum(-1).flip(-1)
