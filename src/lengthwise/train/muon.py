"""Muon: a matrix steps along its averaged gradient, with all singular values made alike.

    M ← μ M + (1 - μ) G
    W ← (1 - lr·decay) W - lr · 0.2 √max(m, n) · orthogonal((1 - μ) G + μ M)

G (m,n) is the gradient of W, and orthogonal(U Σ Vᵀ) is U Vᵀ, so what few strings of a batch ask for moves a weight as
far as what all ask for. With this factor entries move as far as by Adam at the same rate. All weights that are not
matrices, and tables that tokens look up, are stepped by AdamW.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

QUINTIC = (3.4445, -4.7750, 2.0315)
"""a, b, c of x ← a x + b x³ + c x⁵, which after `ROUNDS` has every singular value from 0.01 to 1 near 1."""
ROUNDS = 5


class Muon(torch.optim.AdamW):
    """`matrices` are stepped by Muon, whose μ is the first of `betas`; the other weights by AdamW."""

    def __init__(self, weights: Iterable[Tensor], matrices: Iterable[Tensor], **options: Any):
        super().__init__(weights, **options)
        self.matrices = list(matrices)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        (group,) = self.param_groups
        lr, momentum = group["lr"], group["betas"][0]
        for weight in self.matrices:
            if weight.grad is None:
                continue
            memory = self.state[weight]
            if not memory:
                memory["exp_avg"] = torch.zeros_like(weight)
            average = memory["exp_avg"].lerp_(weight.grad, 1 - momentum)
            way = orthogonal(weight.grad.lerp(average, momentum))
            weight.mul_(1 - lr * group["weight_decay"]).sub_(way, alpha=lr * 0.2 * max(way.shape) ** 0.5)
            weight.grad = None  # AdamW passes by weights without one
        return super().step(closure)


def orthogonal(x: Tensor) -> Tensor:
    """U Vᵀ of x = U Σ Vᵀ (m,n), but for singular values of 0.7 to 1.2 in the place of ones."""
    a, b, c = QUINTIC
    wide = x if x.shape[0] <= x.shape[1] else x.T
    wide = wide / (wide.norm() + 1e-7)
    for _ in range(ROUNDS):
        square = wide @ wide.T
        wide = a * wide + (b * square + c * square @ square) @ wide
    return wide if x.shape[0] <= x.shape[1] else wide.T


def matrices(model: nn.Module, weights: dict[str, Tensor]) -> list[Tensor]:
    """Those of the named weights that Muon is for: matrices that no token is looked up in."""
    tables = {f"{name}.weight" for name, part in model.named_modules() if isinstance(part, nn.Embedding)}
    return [weight for name, weight in weights.items() if weight.ndim == 2 and name not in tables]
