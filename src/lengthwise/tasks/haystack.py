"""What a string hides its facts in: symbols that mean nothing, drawn at random or repeated, and facts put among them.

Shapes: B batch, n facts of w tokens each, h pieces of hay of v tokens each.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor

Hay = Literal["noise", "repeated"]
HayOption = Annotated[Hay, "What lies around the facts: symbols drawn at random, or one row of them again and again."]


def hay(kind: Hay, batch: int, tokens: int, symbols: int, generator: torch.Generator) -> Tensor:
    """(B, h, 1) symbols of 0..symbols-1."""
    if kind == "noise":
        return torch.randint(symbols, (batch, tokens, 1), generator=generator)
    return (torch.arange(tokens) % symbols)[:, None].repeat(batch, 1, 1)


def some(count: int, of: int, batch: int, generator: torch.Generator) -> Tensor:
    """(B, count) different numbers of 0..of-1 in random order."""
    return torch.rand(batch, of, generator=generator).argsort(1)[:, :count]


def hide(facts: Tensor, hay: Tensor, generator: torch.Generator) -> Tensor:
    """(B, n w + h v) the facts (B, n, w) whole and in their order, at places in the hay (B, h, v) that are all alike.

    >>> facts, generator = torch.tensor([[[7, 8], [5, 6]]]), torch.Generator().manual_seed(0)
    >>> hide(facts, torch.zeros(1, 3, 1, dtype=torch.long), generator)
    tensor([[0, 0, 7, 8, 5, 6, 0]])
    """
    (B, n, w), (_, h, v) = facts.shape, hay.shape
    # n of n + h things in a row are facts; each fact before a thing moves it by w - v.
    starts = v * some(n, n + h, B, generator).sort(1).values + (w - v) * torch.arange(n)
    places = (starts[:, :, None] + torch.arange(w)).flatten(1)
    tokens = torch.empty(B, n * w + h * v, dtype=torch.long)
    free = torch.ones_like(tokens, dtype=torch.bool).scatter_(1, places, torch.zeros_like(places, dtype=torch.bool))
    tokens[free] = hay.flatten()
    return tokens.scatter_(1, places, facts.flatten(1))
