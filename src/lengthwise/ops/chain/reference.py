"""The oracle of chain attention: the whole matrix, and one solve."""

from __future__ import annotations

import torch
from torch import Tensor


def reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gamma: Tensor,
    bias: Tensor | None,
    segments: Tensor | None,
    diagonal: bool,
    scale: float,
    solved: Tensor,
) -> Tensor:
    """Y = (1-γ) B^-1 A V with B = I - γ(A - diag A), or with `diagonal` B = I - γA; the rows before are solved."""
    T, S = q.shape[2], k.shape[2]
    hidden = torch.ones(T, S, dtype=torch.bool, device=q.device).triu(S - T + 1)
    if segments is not None:
        hidden = hidden | (segments[:, None, S - T :, None] != segments[:, None, None, :])
    old, A = weights(q, k, bias, scale, hidden).split([S - T, T], -1)
    C = (1 - gamma) * (A @ v) + old @ solved
    return torch.linalg.solve_triangular(system(A, gamma, diagonal), C, upper=False)


def whole(q: Tensor, k: Tensor, v: Tensor, gamma: Tensor, bias: Tensor | None, diagonal: bool, scale: float) -> Tensor:
    """The same, every row reading every key, as an encoder does: a general solve."""
    A = weights(q, k, bias, scale)
    return torch.linalg.solve(system(A, gamma, diagonal), (1 - gamma) * (A @ v))


def weights(q: Tensor, k: Tensor, bias: Tensor | None, scale: float, hidden: Tensor | None = None) -> Tensor:
    """A (B,H,T,S)."""
    logits = q @ k.mT * scale
    if bias is not None:
        logits = logits + bias
    return (logits if hidden is None else logits.masked_fill(hidden, -torch.inf)).softmax(-1)


def system(A: Tensor, gamma: Tensor, diagonal: bool) -> Tensor:
    """B (B,H,T,T)."""
    paths = A if diagonal else A - A.diagonal(0, -2, -1).diag_embed()
    return torch.eye(A.shape[-1], dtype=A.dtype, device=A.device) - gamma * paths
