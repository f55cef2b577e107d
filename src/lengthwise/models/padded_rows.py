"""Rows of a batch: how long the sequences in them are, and where each row ends.

Shapes: B batch, T tokens, D model width.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ..mixers import Where


def sequence_lengths(where: Where) -> Tensor:
    """(B,T): how long the sequence is to which a token belongs; for padding any number."""
    B, T = where.positions.shape
    real = torch.ones_like(where.positions) if where.valid is None else where.valid.long()
    if where.segments is None:
        return real.sum(1, keepdim=True).expand(B, T)
    # Sequences stand in runs, and a run ends where the next token is of another segment, or is padding.
    ends = torch.ones_like(real, dtype=torch.bool)
    ends[:, :-1] = (where.segments[:, 1:] != where.segments[:, :-1]) | (real[:, 1:] != real[:, :-1])
    columns = torch.arange(T, device=real.device)
    following = torch.where(ends, columns, T).flip(1).cummin(1).values.flip(1)
    return where.positions + (following - columns) + 1


def last_column(where: Where) -> Tensor:
    """(B,) the column of each row's last real token."""
    assert where.valid is not None
    return where.valid.shape[1] - 1 - where.valid.flip(1).long().argmax(1)


def last_real(x: Tensor, where: Where) -> Tensor:
    """(B,1,D): each row at its last real token."""
    if where.valid is None:
        return x[:, -1:]
    return x.gather(1, last_column(where)[:, None, None].expand(-1, -1, x.shape[-1]))


def align_right(x: Tensor, where: Where) -> tuple[Tensor, Where]:
    """The same rows, padding moved to the left, so that all of them end in the last column."""
    if where.valid is None:
        return x, where
    T = x.shape[1]
    source = torch.arange(T, device=x.device) - (T - 1 - last_column(where))[:, None]
    inside, source = source >= 0, source.clamp(min=0)
    end = where.positions.gather(1, last_column(where)[:, None])
    moved = replace(
        where,
        positions=end - torch.arange(T - 1, -1, -1, device=x.device),
        valid=where.valid.gather(1, source) & inside,
        segments=None if where.segments is None else where.segments.gather(1, source),
    )
    if where.segments is not None:
        moved = replace(moved, positions=torch.where(inside, where.positions.gather(1, source), -1))
    return x.gather(1, source[..., None].expand(-1, -1, x.shape[-1])), moved
