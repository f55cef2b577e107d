"""A model on a piece of a sequence, whose other pieces are on other ranks: which models can, where the piece stands,
and the loss of the whole.

    loss = Σ_r (the losses at the tokens of rank r) / (all scored tokens)

Every rank has this one number, and its backward pass gives each weight the part that comes from the rank's own tokens.

Shapes: R ranks, B batch, T tokens of the piece, D model width, S outputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.tensor import DTensor

from ..errors import Error, ShapeError
from ..mixers import MIXERS, Layout
from ..ops import Piece, Ranks
from ..positions import Position
from .equal_subtrees import draws

if TYPE_CHECKING:
    from .shell import LengthwisePreTrainedModel


ABLE = {name for name, make in MIXERS.items() if isinstance(make, type) and make.traits.splits}
"""The mixers that can."""


def split_refusal(model: LengthwisePreTrainedModel) -> str | None:
    """Why this model cannot read a sequence that is divided among ranks; None where it can."""
    from .learned_chunk import LearnedChunk

    placer, depth = model._placer[0], model.depth
    if type(placer).place is not Position.place:
        return f"{type(placer).__name__} places tokens by more than their number, and each rank has a piece of them"
    if any(isinstance(weight, DTensor) for weight in model.parameters()):
        return "its weights are sharded (FSDP2 or tensor parallel). Give every rank whole ones"
    if draws(model):
        return "dropout would draw on every rank by itself. Call eval() first, or train without dropout"
    specs = model.config.mixer
    named = {spec["name"] for spec in (specs if isinstance(specs, list) else [specs or {}])}
    if unable := sorted(named - ABLE):
        return (
            f"its {', '.join(unable)} reads all tokens together, or one after another. Build one of "
            f"{', '.join(sorted(ABLE))}"
        )
    if isinstance(depth, LearnedChunk):
        return "while its chunk is learned, a RegularGPT runs several trees. Build one with the chunk that was learned"
    if depth.pad_tokens:
        return 'missing="official" pads the whole sequence. Use "learned-pad"'
    return None


def refused(reason: str) -> Error:
    return Error(f"This model cannot read a sequence that is divided among ranks: {reason}.")


def layout_of_piece(model: LengthwisePreTrainedModel, ranks: Ranks, tokens: Tensor, whole: dict[str, Any]) -> Layout:
    """The layout of these tokens, (B,T) or (B,T,D); `whole`: arguments that only a whole sequence may have."""
    if given := [name for name, value in whole.items() if value is not None]:
        raise Error(
            f"{', '.join(given)} cannot be given where a sequence is divided among ranks: it is one row of real "
            "tokens, without a cache. Leave it out, or call split_over(None) first."
        )
    if reason := split_refusal(model):  # as when dropout was switched on since
        raise refused(reason)
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
