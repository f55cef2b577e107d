"""A causal convolution of a few taps, each channel by itself, across pieces and packed sequences.

    c_t = Σ_{s < taps} taps_s ∘ x_{t-s}

Shapes: B batch, T tokens, D channels, n taps.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..positions import Layout


class Recent(NamedTuple):
    """The last tokens, which the convolution of the next ones reads."""

    croppable = False
    inputs: Tensor
    """(B,n-1,D), zero on padding and before the first token."""
    sequences: Tensor | None
    """(B,n-1) the packed sequences they belong to."""

    def select(self, rows: Tensor) -> Recent:
        return Recent(self.inputs[rows], None if self.sequences is None else self.sequences[rows])


def new_taps(n: int, channels: int) -> nn.Parameter:
    """(n,D), drawn as torch draws a convolution's."""
    return nn.Parameter(torch.empty(n, channels).uniform_(-1, 1) * n**-0.5)


def convolved(new: Tensor, taps: Tensor, layout: Layout, before: Recent | None) -> tuple[Tensor, Recent]:
    """c (B,T,D) of the tokens `new`, and what the next ones need."""
    T, past, sequences = new.shape[1], len(taps) - 1, layout.sequences
    if layout.real is not None:
        new = new.masked_fill(~layout.real[..., None], 0.0)
    inputs = F.pad(new, (0, 0, past, 0)) if before is None else torch.cat([before.inputs, new], 1)
    ids = None
    if sequences is not None:
        known = None if before is None else before.sequences
        ids = torch.cat([sequences[:, :1].expand(-1, past) if known is None else known, sequences], 1)
    parts = []
    for s in range(past + 1):
        columns = slice(past - s, past - s + T)
        read = inputs[:, columns]
        if ids is not None:
            read = read.masked_fill((ids[:, columns] != sequences)[..., None], 0.0)
        parts.append(taps[s] * read)
    return torch.stack(parts).sum(0), Recent(inputs[:, T:], None if ids is None else ids[:, T:])
