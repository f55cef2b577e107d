"""What a long context does to a language model: each token is read twice, behind a long context and behind a short one.

    times(p) = exp( mean of log p(token | at most L tokens before it) - log p(token | all p tokens before it) )

over the tokens at places p of windows of M tokens. L is a length at which the model is known to be good, as the one it
was trained at. How hard the text is stands on both sides, so that a few windows tell small differences apart.

Shapes: N windows, M tokens of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..models.token_classifier import evaluating
from ..train.counting import precision
from .text import logits_of, memory_for

HOLDS, BREAKS = 1.1, 1.5
"""A model holds at a length where its perplexity is at most so many times that at the trained length, and is broken
where it is so many times that or more."""

Standing = Literal["holds", "between", "broken"]


def standing(times: float) -> Standing:
    """Returns what so many times the perplexity at the trained length mean.

    >>> standing(1.0), standing(1.2), standing(float("nan"))
    ('holds', 'between', 'broken')
    """
    return "holds" if times <= HOLDS else "between" if times < BREAKS else "broken"


@torch.no_grad()
def losses_twice(
    model: nn.Module,
    blocks: Tensor,
    short: int,
    *,
    device: torch.device,
    autocast: str = "fp32",
    tokens_at_once: int = 4096,
    after: Callable[[int], None] | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns -log p of every token of blocks (N, M) but the first, each (N, M-1): behind all before it, and behind at
    most `short` - 1 of these.

    The second reading is of windows of `short` tokens with a stride of half as many, each of which scores the tokens of
    its second half. `after` each block of the first reading it is called with how many are done.
    """
    N, M = blocks.shape
    half, behind_short = short // 2, torch.empty(N, M - 1)
    reading = {"device": device, "autocast": autocast}
    with evaluating(model), memory_for(f"a window of {M:,} tokens", "Read shorter ones, or use a smaller model."):
        for start in [*range(0, M - short, half), M - short]:
            scored = half - 1 if start else 0
            parts = blocks[:, start : start + short].split(max(1, tokens_at_once // short))
            losses = torch.cat([_losses(model, part, **reading) for part in parts])
            behind_short[:, start + scored : start + short - 1] = losses[:, scored:]
        behind_all = []
        for block in blocks.split(1):
            behind_all.append(_losses(model, block, **reading))
            if after:
                after(len(behind_all))
    return torch.cat(behind_all), behind_short


def _losses(model: nn.Module, blocks: Tensor, device: torch.device, autocast: str) -> Tensor:
    """(B, T-1) of blocks (B, T)."""
    tokens = blocks.to(device).long()
    with precision(autocast, device):
        logits = logits_of(model, tokens)
    losses = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten(), reduction="none")
    return losses.view(len(tokens), -1).cpu()
