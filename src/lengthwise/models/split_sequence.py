"""A model on a piece of a sequence, whose other pieces are on other ranks: where the piece stands, and the loss
of the whole.

    loss = Σ_r (the losses at the tokens of rank r) / (all scored tokens)

Every rank has this one number, and its backward pass gives each weight the part that comes from the rank's own tokens.

Shapes: R ranks, B batch, T tokens of the piece, D model width, S outputs.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import Error, ShapeError
from ..mixers import Layout
from ..ops import Piece, Ranks


def layout_of_piece(ranks: Ranks, tokens: Tensor, whole: dict[str, Any]) -> Layout:
    """The layout of these tokens, (B,T) or (B,T,D); `whole`: arguments that only a whole sequence may have."""
    if given := [name for name, value in whole.items() if value is not None]:
        raise Error(
            f"{', '.join(given)} cannot be given where a sequence is divided among ranks: it is one row of real "
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


def loss_over_ranks(logits: Tensor, labels: Tensor, piece: Piece, items: Tensor | int | None) -> Tensor:
    """Of logits (B,T,S) and labels (B,T), which are shifted here: the last token is scored by the next rank's first."""
    ranks, (B, T) = piece.ranks, logits.shape[:2]
    if labels.shape != (B, T):
        raise ShapeError(f"labels must be (B,T) = {[B, T]}, this rank's piece of them, got {list(labels.shape)}.")
    firsts = ranks.gather(labels[:, 0] if T else labels.new_full((B,), -100))
    following = next((r for r in range(ranks.rank + 1, ranks.size) if piece.lengths[r]), None)
    after = labels.new_full((B,), -100) if following is None else firsts[following]
    targets = torch.cat([labels[:, 1:], after[:, None]], 1).flatten() if T else labels.flatten()
    loss = F.cross_entropy(logits.flatten(0, 1).float(), targets, ignore_index=-100, reduction="sum")
    if items is None:
        items = ranks.add((targets != -100).sum())
    return ranks.total(loss) / (items.to(loss.device) if isinstance(items, Tensor) else items)
