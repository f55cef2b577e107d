"""Transition matrices of a linear recurrence, as functions of a token: a small network, then a bound on its blocks.

    linear:      M = W u + c
    two-layer:   M = W2 relu(W1 u + c1) + c2

What the network gives may grow any product A_t … A_1 without end, so M becomes A in one of these ways, m_j the columns
of a block of M:

    paper:        a_j = m_j / max(1, ‖m_j‖_p)                          eq. 6: what is too long is shortened
    official:     a_j = n_j / max_i ‖n_i‖_p,  n_j = m_j - mean(m_j)    scaled up too; zeros stay zeros
    orthogonal:   A = H_1 … H_r,  H_j = I - 2 m_j m_jᵀ / ‖m_j‖²        r = b for even b, b - 1 for odd
    one-hot:      a_j = e_i,  i = argmax m_j                           gradients are those of softmax(m_j)
    none:         A = M

For p = 1 the first two never lengthen a vector in the 1-norm; for p > 1 a step may by b^(1-1/p). An orthogonal block
keeps the 2-norm, so nothing fades and nothing grows. An even number of reflections reaches every rotation of b
dimensions and nothing else: permutations and mirrors of b - 1 of them are among these, the last taking up the sign.

A learned rotation is never quite the one that was meant, and T steps add up what it is off by. A block of one-hot
columns is a function from b states to b states: products of these are such functions, exactly, however many. So with
no inputs the state after any text is one of finitely many, and what is right at all of them is right at every length.

One-hot columns trained through a softmax are the matrix P of PD-SSM (Terzić et al. 2025), whose transitions are P times
a complex diagonal. Here nothing scales them and, in the variant "automaton", nothing is added to the state.

Shapes: … any, b width of a block.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Literal

import torch
from torch import Tensor, nn

from ..errors import Error, UnknownName

Kind = Literal["linear", "two-layer"]
Normalisation = Literal["paper", "official", "orthogonal", "one-hot", "none"]


def network(what: str, kind: Kind, width: int, hidden: int, outputs: int, bias: bool = True) -> nn.Module:
    """From a token's vector (…, width) to (…, outputs); `bias` is of the linear kind."""
    if kind == "linear":
        return nn.Linear(width, outputs, bias=bias)
    if kind == "two-layer":
        return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
    raise UnknownName(what, kind, ("linear", "two-layer"))


def bounded(normalisation: Normalisation, p: float) -> Callable[[Tensor], Tensor]:
    """The map from M to A, both (…,b,b)."""
    if not p >= 1:
        raise Error(
            f"block-lrnn: p must be at least 1, got {p}: below it ‖·‖_p is no norm. The official value is 1.2; "
            "1 is the strictest bound, infinity the mildest."
        )
    maps = {
        "paper": partial(shortened, p=p),
        "official": partial(scaled, p=p),
        "orthogonal": rotation,
        "one-hot": choice,
        "none": _unchanged,
    }
    if normalisation not in maps:
        raise UnknownName("normalisation of block-lrnn", normalisation, maps)
    return maps[normalisation]


def shortened(M: Tensor, p: float) -> Tensor:
    return M / column_norms(M, p).clamp(min=1)


def scaled(M: Tensor, p: float) -> Tensor:
    N = M - M.mean(-2, keepdim=True)
    longest = column_norms(N, p).amax(-1, keepdim=True)
    return N / torch.where(longest > 0, longest, 1.0)


def rotation(M: Tensor) -> Tensor:
    """All reflections at once: with unit columns U and S = I/2 + the part of UᵀU above its diagonal, I - U S⁻¹ Uᵀ."""
    b = M.shape[-1]
    I = torch.eye(b, dtype=M.dtype, device=M.device)
    N = M[..., : b - b % 2]
    norms = column_norms(N, 2)
    U = N / torch.where(norms > 0, norms, 1.0)
    S = (U.mT @ U).triu(1) + I[: U.shape[-1], : U.shape[-1]] / 2
    return I - U @ torch.linalg.solve_triangular(S, U.mT, upper=True)


def choice(M: Tensor) -> Tensor:
    """Columns that are one-hot to the last bit, and to the backward pass a softmax; M may have any number of them."""
    b = M.shape[-2]
    H = (torch.arange(b, device=M.device)[:, None] == M.max(-2, keepdim=True).indices).to(M.dtype)  # argmax: slow
    P = M.softmax(-2)
    return H + (P - P.detach())


def _unchanged(M: Tensor) -> Tensor:
    return M


def column_norms(M: Tensor, p: float) -> Tensor:
    """(…,1,b), safe where powers of the entries would overflow or vanish."""
    if p in (1, inf):
        return torch.linalg.vector_norm(M, p, dim=-2, keepdim=True)
    # The norm is homogeneous, so its gradient is right with the scale held constant.
    scale = M.detach().abs().amax(-2, keepdim=True)
    scale = torch.where(scale > 0, scale, 1.0)
    return scale * torch.linalg.vector_norm(M / scale, p, dim=-2, keepdim=True)
