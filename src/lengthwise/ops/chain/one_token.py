"""One token after others, as in decoding: its row of the system is solved by reading it.

    y_t = Σ_{j<t} A_tj z_j + (1-γ) A_tt v_t                                     with the diagonal: over 1 - γ A_tt

A few operations of torch, so gradients and stacks (torch.func) need nothing of their own.

Shapes: B batch, H heads, S keys, d head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .block_rows import logit_bias
from .call import Call


def solve_one_row(call: Call) -> Tensor:
    """y (B,H,1,d) of the last of the keys, the others being solved."""
    q, k, gamma, S = call.q, call.k, call.gamma, call.k.shape[2]
    s = q * call.scale @ k.mT
    added = None
    if call.bias is not None or call.sequences is not None:
        added = logit_bias(q, call.bias, call.sequences, slice(0, 1), slice(S - 1, S), slice(0, S))
    A = (s if added is None else s + added).softmax(-1)
    own = A[..., -1:]
    right = torch.addcmul(A[..., :-1] @ call.solved, 1 - gamma, own * call.v)
    return right / (1 - gamma * own) if call.diagonal else right
