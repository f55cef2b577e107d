"""What a call of the model says about its tokens, read into their layout: masks, packed sequences, places.

Shapes: B batch, T tokens, S tokens with those of a cache, D model width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import Error, ShapeError
from ..mixers import Layout
from ..ops import Piece, Ranks
from .cache import LengthwiseCache


def read_layout(
    tokens: Tensor,
    mask: Tensor | None,
    sequences: Tensor | None,
    position_ids: Tensor | None,
    cache: LengthwiseCache | None,
) -> Layout:
    """The layout of `tokens`, (B,T) or (B,T,D), which follow those of the cache."""
    if mask is None and sequences is None:
        layout = Layout.of(tokens) if cache is None else cache.following(tokens)
    else:
        layout = _masked(tokens, mask, sequences, cache)
    return layout if position_ids is None else _placed(position_ids, layout, cache)


def layout_of_piece(ranks: Ranks, tokens: Tensor, whole: dict[str, Any]) -> Layout:
    """The layout of these tokens, (B,T) or (B,T,D); `whole`: arguments that only a whole sequence may have."""
    if extra := [name for name, value in whole.items() if value is not None]:
        raise Error(
            f"{', '.join(extra)} cannot be given where a sequence is divided among ranks: it is one row of real "
            "tokens, without a cache. Leave it out, or call split_over(None) first."
        )
    shapes = ranks.gather(torch.tensor(tokens.shape[:2], device=tokens.device)).tolist()
    if len({B for B, _ in shapes}) > 1:
        rows = ", ".join(str(B) for B, _ in shapes)
        raise ShapeError(
            f"A batch that is divided among ranks has as many rows on each, got {rows}. "
            "Give every rank its piece of the same rows."
        )
    piece = Piece(ranks, tuple(T for _, T in shapes))
    if piece.total == 0:
        raise ShapeError("A sequence that is divided among ranks must have a token on one of them, got none on any.")
    layout = Layout.of(tokens, past=piece.first)
    return Layout(layout.positions, piece=piece)


def check_cache_position(cache_position: Tensor, T: int, cache: LengthwiseCache | None) -> None:
    past = 0 if cache is None else cache.length
    if cache_position.tolist() != list(range(past, past + T)):
        raise Error(
            f"cache_position must say where the new tokens stand after those of the cache, {past} to {past + T - 1}, "
            f"got {cache_position.tolist()}. Leave it out: the cache knows."
        )


def _masked(tokens: Tensor, mask: Tensor | None, sequences: Tensor | None, cache: LengthwiseCache | None) -> Layout:
    B, T = tokens.shape[:2]
    past = 0 if cache is None else cache.length
    if mask is not None and mask.dim() != 2:
        raise ShapeError(
            f"attention_mask must be (B,T), 1 on real tokens, got {list(mask.shape)}. What a token may read of the "
            "others is the model's own to say; where a row holds several sequences, give sequence_ids."
        )
    for name, rows, length in (("attention_mask", mask, past + T), ("sequence_ids", sequences, T)):
        if rows is not None and rows.shape != (B, length):
            what = "as the tokens of the cache and these" if length > T else "as input_ids"
            raise ShapeError(f"{name} must be shaped {what}, {[B, length]}, got {list(rows.shape)}.")
    real = None if mask is None else _real(mask)
    if sequences is not None:
        return Layout.from_sequences(sequences, real)
    assert real is not None
    # Whole rows have a faster way, and a cache that goes on knows all but the new columns.
    if cache is not None and cache.continues and bool(real[:, past:].all()):
        return cache.following(tokens)
    return Layout.from_mask(real, T)


def _real(mask: Tensor) -> Tensor:
    """(B,S) true on real tokens. A mask of floats may also be one to add to attention: 0 there, and hugely negative."""
    if mask.dtype == torch.bool:
        return mask
    added = (mask < 0).any()
    real = torch.where(added, mask == 0, mask == 1)
    if torch.compiler.is_compiling():
        return real
    lowest = -1e4 if mask.is_floating_point() else 0
    if not (real | torch.where(added, mask <= lowest, mask == 0)).all():
        raise Error(
            "attention_mask must be 1 on real tokens and 0 on padding (or, to be added, 0 and -inf), got values from "
            f"{mask.min().item()} to {mask.max().item()}. Numbers of packed sequences are sequence_ids."
        )
    if mask.is_floating_point() and not mask.any():
        raise Error(
            "attention_mask: floats that are all 0 may mean that all tokens are padding, or that none is. Give it as "
            "booleans or integers, or leave it out if none is."
        )
    return real


def _placed(position_ids: Tensor, layout: Layout, cache: LengthwiseCache | None) -> Layout:
    """The layout, which these positions agree with, or that of the packed sequences which they count."""
    B, T = layout.positions.shape
    if position_ids.shape not in ((B, T), (1, T)):
        raise ShapeError(f"position_ids must be (B,T) or (1,T), {[B, T]}, got {list(position_ids.shape)}.")
    if _agrees(position_ids, layout):
        return layout
    if layout.sequences is None and cache is None:
        packed = Layout.from_sequences((position_ids == 0).cumsum(1).expand(B, T), layout.real)
        if _agrees(position_ids, packed):
            return packed
    raise Error(
        "position_ids must count the real tokens of every sequence from 0 (packed sequences from 0 each), and go on "
        f"after those of the cache, got {position_ids[0].tolist()} in the first row. Leave them out."
    )


def _agrees(position_ids: Tensor, layout: Layout) -> bool:
    return bool(((position_ids == layout.positions) | ~layout.real_tokens()).all())
