"""Rows of a batch: how long the sequences in them are, and where each row ends.

Shapes: B batch, T tokens, D model width.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ..mixers import Layout


def sequence_lengths(layout: Layout) -> Tensor:
    """(B,T): how long the sequence is to which a token belongs; for padding any number."""
    B, T = layout.positions.shape
    real = torch.ones_like(layout.positions) if layout.real is None else layout.real.long()
    if layout.sequences is None:
        return real.sum(1, keepdim=True).expand(B, T)
    # Sequences stand in runs, and a run ends where the next token is of another sequence, or is padding.
    ends = torch.ones_like(real, dtype=torch.bool)
    ends[:, :-1] = (layout.sequences[:, 1:] != layout.sequences[:, :-1]) | (real[:, 1:] != real[:, :-1])
    columns = torch.arange(T, device=real.device)
    following = torch.where(ends, columns, T).flip(1).cummin(1).values.flip(1)
    return layout.positions + (following - columns) + 1


def last_column(layout: Layout) -> Tensor:
    """(B,) the column of each row's last real token."""
    assert layout.real is not None
    return layout.real.shape[1] - 1 - layout.real.flip(1).long().argmax(1)


def last_real(x: Tensor, layout: Layout) -> Tensor:
    """(B,1,D): each row at its last real token, which may be on another rank."""
    if layout.piece is not None:
        return layout.piece.last_token(x)
    if layout.real is None:
        return x[:, -1:]
    return x.gather(1, last_column(layout)[:, None, None].expand(-1, -1, x.shape[-1]))


def align_right(x: Tensor, layout: Layout) -> tuple[Tensor, Layout]:
    """The same rows, padding moved to the left, so that all of them end in the last column."""
    if layout.real is None:
        return x, layout
    T = x.shape[1]
    source = torch.arange(T, device=x.device) - (T - 1 - last_column(layout))[:, None]
    inside, source = source >= 0, source.clamp(min=0)
    end = layout.positions.gather(1, last_column(layout)[:, None])
    moved = replace(
        layout,
        positions=end - torch.arange(T - 1, -1, -1, device=x.device),
        real=layout.real.gather(1, source) & inside,
        sequences=None if layout.sequences is None else layout.sequences.gather(1, source),
    )
    if layout.sequences is not None:
        moved = replace(moved, positions=torch.where(inside, layout.positions.gather(1, source), -1))
    return x.gather(1, source[..., None].expand(-1, -1, x.shape[-1])), moved
