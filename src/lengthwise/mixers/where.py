"""What a mixer is told about its tokens: where each stands, which sequence it belongs to, and whether it is real.

Shapes: B batch, T tokens, D model width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..errors import Error, ShapeError


@dataclass(frozen=True, eq=False)
class Where:
    positions: Tensor
    """(B, T) integers, from 0 inside each sequence; negative on left padding."""
    segments: Tensor | None = None
    """(B, T) integers numbering packed sequences; None: each row is one sequence."""
    valid: Tensor | None = None
    """(B, T) booleans, false on padding; None: no padding, the fast path."""
    level: int = 0
    """The depth group of an adaptive-depth model; 0 elsewhere."""
    chunk: int | None = None
    """The chunk of an adaptive-depth model, where its mixers serve several; None: the mixer's own."""
    pad: Tensor | None = None
    """(D,) the one vector a model puts in the place of every token before the first; None: it has none."""

    @classmethod
    def of(cls, x: Tensor, past: int = 0) -> Where:
        """Rows that are whole sequences (or their continuation after `past` tokens). `x` is (B, T) or (B, T, D)."""
        positions = torch.arange(past, past + x.shape[1], device=x.device)
        return cls(positions.expand(x.shape[0], -1))

    @classmethod
    def from_mask(cls, mask: Tensor, new: int | None = None) -> Where:
        """From a (B, S) attention mask, 1 on real tokens; the last `new` of its columns are the tokens at hand.

        >>> Where.from_mask(torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0]])).positions.tolist()
        [[-2, -1, 0, 1], [0, 1, 2, 3]]
        """
        valid = mask.bool()
        # Asking costs a look at the data, which a compiled graph cannot take.
        if not torch.compiler.is_compiling() and (valid.int().diff(dim=1).abs().sum(1) + valid[:, 0].int() > 2).any():
            raise Error(
                "attention_mask: the real tokens of a row must stand together, got padding between two of them. "
                "Pad on the left or on the right only. (generate() guesses a mask wherever pad_token_id occurs in the "
                "text; give it the true attention_mask.)"
            )
        columns = torch.arange(mask.shape[1], device=mask.device)
        positions = columns - valid.long().argmax(1, keepdim=True)
        start = 0 if new is None else mask.shape[1] - new
        return cls(positions[:, start:], valid=valid[:, start:])

    @classmethod
    def packed(cls, cu_seqlens: Tensor) -> Where:
        """One row holding several sequences end to end; `cu_seqlens` = [0, n1, n1+n2, …, T]."""
        lengths = cu_seqlens.diff()
        segments = torch.repeat_interleave(torch.arange(len(lengths), device=cu_seqlens.device), lengths)
        positions = torch.arange(int(cu_seqlens[-1]), device=cu_seqlens.device) - cu_seqlens[:-1][segments]
        return cls(positions[None], segments=segments[None])

    @classmethod
    def from_segments(cls, segments: Tensor, valid: Tensor | None = None) -> Where:
        """From (B, T) numbers that change wherever, in a row, a new sequence begins; padding may have any number.

        >>> Where.from_segments(torch.tensor([[7, 7, 7, 3, 3]])).positions.tolist()
        [[0, 1, 2, 0, 1]]
        >>> valid = torch.tensor([[False, True, True, True]])
        >>> Where.from_segments(torch.tensor([[0, 0, 0, 1]]), valid).positions.tolist()
        [[0, 0, 1, 0]]
        """
        columns = torch.arange(segments.shape[1], device=segments.device)
        begins = torch.ones_like(segments, dtype=torch.bool)
        begins[:, 1:] = segments[:, 1:] != segments[:, :-1]
        if valid is not None:
            # Padding that shares its neighbour's number is no part of that sequence, and must not move its positions.
            begins[:, 1:] |= valid[:, 1:] != valid[:, :-1]
        positions = columns - torch.where(begins, columns, 0).cummax(1).values
        return cls(positions, segments=begins.long().cumsum(1) - 1, valid=valid)

    @property
    def plain(self) -> bool:
        """Whether every row is one sequence without padding, so that nothing need look at the data."""
        return self.segments is None and self.valid is None

    def at_level(self, level: int) -> Where:
        return replace(self, level=level)

    def pick(self, index: Tensor | slice) -> Where:
        """The same facts about some of the tokens."""
        return self._changed(lambda a: a[:, index])

    def pick_rows(self, rows: Tensor) -> Where:
        """The same facts about some of the rows."""
        return self._changed(lambda a: a[rows])

    def then(self, new: Where) -> Where:
        """The facts about these tokens and the `new` ones after them, as a state keeps them of its keys."""
        if (self.segments is None) != (new.segments is None):
            raise ShapeError("Where: packed tokens can only go on from packed tokens; give both parts their segments.")
        marked = self.valid is not None or new.valid is not None
        old, more = self.segments, new.segments
        return replace(
            new,
            positions=torch.cat([self.positions, new.positions], 1),
            segments=None if old is None or more is None else torch.cat([old, more], 1),
            valid=torch.cat([self._real(), new._real()], 1) if marked else None,
        )

    def _changed(self, change: Callable[[Tensor], Tensor]) -> Where:
        """`change` of everything that is (B, T)."""
        segments, valid = (None if a is None else change(a) for a in (self.segments, self.valid))
        return replace(self, positions=change(self.positions), segments=segments, valid=valid)

    def _real(self) -> Tensor:
        return torch.ones_like(self.positions, dtype=torch.bool) if self.valid is None else self.valid
