"""How well a language model predicts text it was not trained on.

    perplexity = exp( mean over all but the first token of every block of -log p(token | those before it in the block) )

Shapes: N blocks, T tokens of a block.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..errors import NonFiniteError
from ..text import packing
from ..train.counting import precision
from ..train.objectives import negative_log_likelihood


@torch.no_grad()
def perplexity(
    model: nn.Module,
    blocks: Tensor,
    *,
    device: torch.device,
    autocast: str = "fp32",
    tokens_at_once: int = 4096,
    before: Callable[[], None] | None = None,
) -> float:
    """Of blocks (N, T), read in parts of about `tokens_at_once` tokens; `before` each part is called and may raise."""
    model.eval()
    total = 0.0
    for part in packing.parts(blocks, tokens_at_once):
        if before:
            before()
        with precision(autocast, device):
            logits = model(input_ids=part.to(device).long(), use_cache=False).logits
        total += negative_log_likelihood(logits, part.to(device).long()).item()
    mean = total / blocks[:, 1:].numel()
    if not math.isfinite(mean):
        raise NonFiniteError(f"The loss on the test text is not finite ({mean}).")
    return math.exp(mean)
