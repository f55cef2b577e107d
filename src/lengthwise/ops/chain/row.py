"""One token after others, as decoding asks: its row of the system is solved by reading it.

    y_t = Σ_{j<t} A_tj z_j + (1-γ) A_tt v_t                                     with the diagonal: over 1 - γ A_tt

A few operations of torch, so gradients and stacks (torch.func) need nothing of their own.

Shapes: B batch, H heads, S keys, d head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .blocks import part
from .system import Form


def row(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gamma: Tensor,
    bias: Tensor | None,
    segments: Tensor | None,
    solved: Tensor,
    form: Form,
) -> Tensor:
    """y (B,H,1,d) of the last of the keys, the others being solved."""
    S = k.shape[2]
    s = q * form.scale @ k.mT
    more = part(q, bias, segments, slice(0, 1), slice(S - 1, S), slice(0, S))
    A = (s if more is None else s + more).softmax(-1)
    own = A[..., -1:]
    right = torch.addcmul(A[..., :-1] @ solved, 1 - gamma, own * v)
    return right / (1 - gamma * own) if form.diagonal else right
