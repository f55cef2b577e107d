"""The receptive field: how much of a model's last answer comes from each token, and how far back that reaches.

    g_i = |∂z / ∂x_i|,    c_n = (g_T + g_(T-1) + … + g_(T-n+1)) / (g_1 + … + g_T)

z are the logits at the last position, x_i is the embedding of token i as the model's embedding layer gives it, and the
norm is that of the whole Jacobian (Frobenius), so that no one logit is singled out. For up to `EXACT` logits it is
computed; for more it is estimated by so many random projections v of z, for E |∂(v·z)/∂x_i|² = |∂z/∂x_i|². Every string
counts alike: each g is divided by its sum, and these are averaged.

A model to which all tokens matter alike has c_n = n/T, a straight line; one that looks at the last w tokens has
c_w = 1. It is the tool of Chi et al. (2023), used in §7.4 of the RegularGPT paper.

Shapes: B batch, T tokens, D width of the embedding, S logits.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import Error, NonFiniteError, ShapeError
from ..models import TokenClassifier
from ..seeds import generator
from .probing import beside, listening

EXACT = 16
"""The Jacobian is exact for up to so many logits."""


@dataclass(frozen=True)
class ReceptiveField:
    model: str
    task: str | None
    strings: int
    shares: tuple[float, ...]
    """The share of the gradient at each token, the newest first."""
    cumulative: tuple[float, ...]
    """c_1 … c_T."""

    @property
    def length(self) -> int:
        return len(self.shares)

    @property
    def bend(self) -> float:
        """The largest distance of the curve from a straight line: 0 where all tokens matter alike, at most 1 - 1/T."""
        return max(abs(c - n / self.length) for n, c in enumerate(self.cumulative, 1))

    def newest(self, share: float = 0.9) -> int:
        """Returns how many of the newest tokens hold this share of the gradient."""
        return next(n for n, c in enumerate(self.cumulative, 1) if c >= share - 1e-9 or n == self.length)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "length": self.length, "bend": self.bend, "newest_90": self.newest()}


def measure_receptive_field(
    classifier: TokenClassifier, tokens: Tensor, *, task: str | None = None, seed: int = 0
) -> ReceptiveField:
    """The receptive field of the last position, averaged over the strings `tokens` (B,T); `task` is for the caption.

    >>> from lengthwise import models
    >>> classifier = models.build("lstm", vocab_size=2, num_outputs=2, width=8)
    >>> tokens = torch.randint(2, (4, 50), generator=torch.Generator().manual_seed(0))
    >>> field = measure_receptive_field(classifier, tokens)
    >>> field.length, round(field.cumulative[-1], 6)
    (50, 1.0)
    """
    if tokens.dim() != 2 or not tokens.numel():
        raise ShapeError(
            f"measure_receptive_field: tokens must be (B,T) with at least one token, got {list(tokens.shape)}."
        )
    squares = torch.stack([_squares(classifier, row, seed) for row in beside(classifier, tokens).split(1)])
    norms = squares.sqrt().flip(1)
    total = norms.sum(1, keepdim=True)
    if not (torch.isfinite(total) & (total > 0)).all():
        word = "zero everywhere" if torch.isfinite(total).all() else "not finite"
        raise NonFiniteError(
            f"{classifier.name}: the gradient of its last answer is {word}, so no token has a share of it. "
            "Is the model trained, and does it read its tokens through nn.Embedding? Try shorter strings."
        )
    shares = (norms / total).mean(0)
    cumulative = shares.cumsum(0)
    curve = (cumulative / cumulative[-1]).tolist()
    return ReceptiveField(classifier.name, task, len(tokens), tuple(shares.tolist()), tuple(curve))


def _squares(classifier: TokenClassifier, row: Tensor, seed: int) -> Tensor:
    """(T,) the squared norms |∂z / ∂x_i|² for one string (1,T), up to a common factor."""
    embedded: list[Tensor] = []

    def watch(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor | None:
        # Embeddings of positions are called with other numbers.
        if embedded or not (inputs and isinstance(inputs[0], Tensor) and torch.equal(inputs[0], row)):
            return None
        embedded.append(output.detach().requires_grad_())
        return embedded[0]

    hooks = [m.register_forward_hook(watch) for m in classifier.modules() if isinstance(m, nn.Embedding)]
    with listening(classifier, hooks), torch.enable_grad():
        z = classifier(row, last=True)[0, -1]
        if not embedded:
            raise Error(
                f"{classifier.name}: its tokens must be read by an nn.Embedding, for the gradient is taken with "
                "respect to the vectors it gives; none was called with the tokens. Make the embedding an nn.Embedding."
            )
        x = embedded[0]
        draw = generator("projections", seed)
        exact = len(z) <= EXACT
        rows = torch.eye(len(z)) if exact else torch.randn(EXACT, len(z), generator=draw)
        squares = torch.zeros(row.shape[1], dtype=torch.float64)
        for v in rows.to(z):
            (gradient,) = torch.autograd.grad(z @ v, x, retain_graph=True, allow_unused=True)
            if gradient is not None:
                squares += gradient[0].double().pow(2).sum(-1).cpu()
    return squares
