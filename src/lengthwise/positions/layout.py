"""The layout of a batch: which sequence each token belongs to, where it stands in it, and whether it is a token at all.

Shapes: B batch, T tokens, D model width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import Error, ShapeError
from ..ops.ranks import Piece


@dataclass(frozen=True, eq=False)
class Layout:
    positions: Tensor
    """(B, T) integers that count from 0 inside each sequence; negative on left padding."""
    sequences: Tensor | None = None
    """(B, T) integers that number packed sequences; None: each row is one sequence."""
    real: Tensor | None = None
    """(B, T) booleans, false on padding; None: there is no padding, which is the fast path."""
    piece: Piece | None = None
    """Where the rows go on on other ranks: which part of them this is; None: they are whole."""

    @classmethod
    def of(cls, x: Tensor, past: int = 0) -> Layout:
        """Rows that are whole sequences, or that continue after `past` tokens. `x` is (B, T) or (B, T, D)."""
        positions = torch.arange(past, past + x.shape[1], device=x.device)
        return cls(positions.expand(x.shape[0], -1))

    @classmethod
    def from_mask(cls, mask: Tensor, new: int | None = None) -> Layout:
        """From a (B, S) attention mask, 1 on real tokens; only the last `new` of its columns are laid out.

        >>> Layout.from_mask(torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0]])).positions.tolist()
        [[-2, -1, 0, 1], [0, 1, 2, 3]]
        """
        real = mask.bool()
        # The check looks at the data, which a compiled graph cannot do.
        if not torch.compiler.is_compiling() and (real.int().diff(dim=1).abs().sum(1) + real[:, 0].int() > 2).any():
            raise Error(
                "attention_mask: the real tokens of a row must stand together, got padding between two of them. "
                'Pad on one side only; to generate, on the left: tokenizer.padding_side = "left". '
                "(generate() guesses a mask wherever pad_token_id occurs in the text; give it the true attention_mask.)"
            )
        columns = torch.arange(mask.shape[1], device=mask.device)
        positions = columns - real.long().argmax(1, keepdim=True)
        start = 0 if new is None else mask.shape[1] - new
        return cls(positions[:, start:], real=real[:, start:])

    @classmethod
    def packed(cls, cu_seqlens: Tensor) -> Layout:
        """One row that holds several sequences end to end; `cu_seqlens` = [0, n1, n1+n2, …, T]."""
        lengths = cu_seqlens.diff()
        sequences = torch.repeat_interleave(torch.arange(len(lengths), device=cu_seqlens.device), lengths)
        positions = torch.arange(int(cu_seqlens[-1]), device=cu_seqlens.device) - cu_seqlens[:-1][sequences]
        return cls(positions[None], sequences=sequences[None])

    @classmethod
    def from_sequences(cls, ids: Tensor, real: Tensor | None = None) -> Layout:
        """From (B, T) numbers that change wherever a row's next sequence begins; padding may have any number.

        >>> Layout.from_sequences(torch.tensor([[7, 7, 7, 3, 3]])).positions.tolist()
        [[0, 1, 2, 0, 1]]
        >>> real = torch.tensor([[False, True, True, True]])
        >>> Layout.from_sequences(torch.tensor([[0, 0, 0, 1]]), real).positions.tolist()
        [[0, 0, 1, 0]]
        """
        columns = torch.arange(ids.shape[1], device=ids.device)
        begins = torch.ones_like(ids, dtype=torch.bool)
        begins[:, 1:] = ids[:, 1:] != ids[:, :-1]
        if real is not None:
            # Padding that shares its neighbour's number is no part of that sequence, and must not move its positions.
            begins[:, 1:] |= real[:, 1:] != real[:, :-1]
        positions = columns - torch.where(begins, columns, 0).cummax(1).values
        return cls(positions, sequences=begins.long().cumsum(1) - 1, real=real)

    @property
    def plain(self) -> bool:
        """Whether every row is one sequence without padding, so that nobody needs to look at the data."""
        return self.sequences is None and self.real is None

    def pick(self, columns: Tensor | slice) -> Layout:
        """The layout of some of the tokens."""
        return self._each(lambda part: part[:, columns])

    def then(self, new: Layout) -> Layout:
        """The layout of these tokens and the `new` ones after them, as a state keeps it of its keys."""
        if (self.sequences is None) != (new.sequences is None):
            raise ShapeError("Layout: packed tokens can only follow packed tokens; give both parts their sequences.")
        padded = self.real is not None or new.real is not None
        earlier, later = self.sequences, new.sequences
        return Layout(
            torch.cat([self.positions, new.positions], 1),
            sequences=None if earlier is None or later is None else torch.cat([earlier, later], 1),
            real=torch.cat([self.real_tokens(), new.real_tokens()], 1) if padded else None,
        )

    def real_tokens(self) -> Tensor:
        """`real`, written out where it is None."""
        return torch.ones_like(self.positions, dtype=torch.bool) if self.real is None else self.real

    def _each(self, change: Callable[[Tensor], Tensor]) -> Layout:
        """`change` of every (B, T) part."""
        sequences, real = (None if part is None else change(part) for part in (self.sequences, self.real))
        return Layout(change(self.positions), sequences, real)
