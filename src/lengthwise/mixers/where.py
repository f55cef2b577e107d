"""What a mixer is told about its tokens: where each stands, which sequence it belongs to, and whether it is real.

Shapes: B batch, T tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Where:
    positions: Tensor
    """(B, T) integers, from 0 inside each sequence; negative on left padding."""
    segments: Tensor | None = None
    """(B, T) integers numbering packed sequences; None: each row is one sequence."""
    valid: Tensor | None = None
    """(B, T) booleans, false on padding; None: no padding, the fast path."""
    level: int = 0
    """The depth group of an adaptive-depth model; 0 elsewhere."""

    @classmethod
    def of(cls, x: Tensor, past: int = 0) -> Where:
        """Rows that are whole sequences (or their continuation after `past` tokens). `x` is (B, T) or (B, T, D)."""
        positions = torch.arange(past, past + x.shape[1], device=x.device)
        return cls(positions.expand(x.shape[0], -1))

    @classmethod
    def from_mask(cls, mask: Tensor, new: int | None = None) -> Where:
        """From a (B, S) attention mask, 1 on real tokens; the last `new` of its columns are the tokens at hand."""
        valid = mask.bool()
        positions = valid.long().cumsum(1) - 1
        # A pad on the left counts down to -1 just before the first token; a pad on the right counts on.
        first = valid.long().argmax(1, keepdim=True)
        columns = torch.arange(mask.shape[1], device=mask.device)
        positions = torch.where(columns < first, columns - first, positions)
        if new is not None:
            positions, valid = positions[:, mask.shape[1] - new :], valid[:, valid.shape[1] - new :]
        return cls(positions, valid=valid)

    @classmethod
    def packed(cls, cu_seqlens: Tensor) -> Where:
        """One row holding several sequences end to end; `cu_seqlens` = [0, n1, n1+n2, …, T]."""
        lengths = cu_seqlens.diff()
        segments = torch.repeat_interleave(torch.arange(len(lengths), device=cu_seqlens.device), lengths)
        positions = torch.arange(int(cu_seqlens[-1]), device=cu_seqlens.device) - cu_seqlens[:-1][segments]
        return cls(positions[None], segments=segments[None])

    def at_level(self, level: int) -> Where:
        return replace(self, level=level)

    def pick(self, index: Tensor | slice) -> Where:
        """The same facts about some of the tokens."""
        take = lambda a: None if a is None else a[:, index]  # noqa: E731
        return replace(self, positions=self.positions[:, index], segments=take(self.segments), valid=take(self.valid))
