"""The oracle of chain attention: the whole matrix, and one solve."""

from __future__ import annotations

import torch
from torch import Tensor

from .call import ChainCall


def oracle(call: ChainCall) -> Tensor:
    """Y = (1-γ) B^-1 A V with B = I - γ(A - diag A), or with `diagonal` B = I - γA; the rows before are solved."""
    if not call.causal:
        return encoder(call)
    q, k, v, gamma, sequences = call.q, call.k, call.v, call.gamma, call.sequences
    T, S = q.shape[2], k.shape[2]
    hidden = torch.ones(T, S, dtype=torch.bool, device=q.device).triu(S - T + 1)
    if sequences is not None:
        hidden = hidden | (sequences[:, None, S - T :, None] != sequences[:, None, None, :])
    old, A = weights(q, k, call.bias, call.scale, hidden).split([S - T, T], -1)
    C = (1 - gamma) * (A @ v) + old @ call.solved
    return torch.linalg.solve_triangular(system(A, gamma, call.diagonal), C, upper=False)


def encoder(call: ChainCall) -> Tensor:
    """The same where every row reads every key, as in an encoder: a general solve."""
    A = weights(call.q, call.k, call.bias, call.scale)
    return torch.linalg.solve(system(A, call.gamma, call.diagonal), (1 - call.gamma) * (A @ call.v))


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
