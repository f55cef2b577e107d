"""By torch's operators: one row of the system for one token, all of A for short texts, block rows for others.

Where the choice rests on measurement, `docs/earlier-log.md` has the figures.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..adjoint import folded
from .block_rows import BlockRows, logit_bias
from .call import ChainCall
from .reference import encoder
from .triangular import Constants, own_logits, solve

# For short texts: the mathematics of `block_rows.py` in one block, with A (and a small inverse) kept for the backward
# pass.
#
#     W = (I - γÃ)^-1       Y = (1-γ) W A V       R = W^T Ȳ       dV = (1-γ) A^T R       dS = A ∘ (dA - R · Y)
#
# Every entry of W is a sum of products of weights, none below 0: nothing cancels in it.
#
# Shapes: B batch, H heads, T tokens, d head width.

INVERT = 64
"""Up to so many tokens two products with W are faster than two solves."""


class Dense(torch.autograd.Function):
    """y (B,H,T,d) of a whole text: nothing solved before it, one sequence a row."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, gamma: Tensor, bias: Tensor | None, constants: Constants):
        A = own_logits(q, k, bias, constants.scale).softmax(-1)
        right = (A @ v).mul_(1 - gamma)
        if q.shape[2] > INVERT:
            return solve(A, gamma, right, constants), A, None
        eye = torch.eye(q.shape[2], dtype=A.dtype, device=A.device)
        W = solve(A, gamma, eye.expand_as(A), constants)
        return W @ right, A, W

    @staticmethod
    def setup_context(ctx: Any, inputs, output):
        q, k, v, gamma, bias, constants = inputs
        y, A, W = output
        ctx.mark_non_differentiable(*(x for x in (A, W) if x is not None))
        ctx.save_for_backward(q, k, v, gamma, y, A, W)
        ctx.constants, ctx.bias = constants, None if bias is None else bias.shape

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs):  # pyright: ignore[reportIncompatibleMethodOverride]
        dy, saved = grad_outputs[0], ctx.saved_tensors
        with torch.autocast(dy.device.type, enabled=False):
            return (*_backward(dy, saved, ctx.constants, ctx.bias, ctx.needs_input_grad), None)

    @staticmethod
    def vmap(info, in_dims, *inputs):
        return folded(Dense, info, in_dims, inputs)


def _backward(dy, saved, constants: Constants, bias, needs):
    q, k, v, gamma, y, A, W = saved
    R = solve(A, gamma, dy, constants, transposed=True) if W is None else W.mT @ dy
    row = (R * y).sum(-1, keepdim=True)
    ds = R @ torch.addcmul(v, gamma, y - v).mT
    if not constants.diagonal:
        # A token's own weight reads (1-γ)v, not z = (1-γ)v + γy.
        ds.diagonal(0, -2, -1).sub_((row * gamma).squeeze(-1))
    ds.sub_(row).mul_(A)
    to_v = A.mT @ R
    dgamma = None
    if needs[3]:
        each = to_v * (y - v)
        each = each if constants.diagonal else each - A.diagonal(0, -2, -1).unsqueeze(-1) * R * y
        dgamma = each.sum_to_size(gamma.shape)
    dbias = ds.sum_to_size(bias) if bias is not None and needs[4] else None
    ds = ds.mul_(constants.scale) if dbias is None else ds * constants.scale
    return ds @ k, ds.mT @ q, to_v * (1 - gamma), dgamma, dbias


# One token after others, as in decoding: its row of the system is solved by reading it.
#
#     y_t = Σ_{j<t} A_tj z_j + (1-γ) A_tt v_t                                     with the diagonal: over 1 - γ A_tt
#
# A few operations of torch, so gradients and stacks (torch.func) need nothing of their own.
#
# Shapes: B batch, H heads, S keys, d head width.


def solve_one_row(call: ChainCall) -> Tensor:
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


SHORT, KEPT = 128, 2**20
"""Up to so many tokens, and numbers in A, all of A is kept."""
SMALLEST, LARGEST, FITS = 32, 256, 2**18
"""Bounds of the rows in a block, and how many numbers of its part of A stay in a cache."""


def by_torch(call: ChainCall, block: int | None = None) -> Tensor:
    """As `oracle`. block: go by block rows, so many rows to a block."""
    if not call.causal:
        return encoder(call)
    q, k, v, gamma, bias, sequences = call.q, call.k, call.v, call.gamma, call.bias, call.sequences
    heads, T = q.shape[0] * q.shape[1], q.shape[2]
    if T == 1 and block is None:
        return solve_one_row(call)
    constants = Constants(call.diagonal, call.scale, block or rows_in_block(heads))
    short = T <= SHORT and heads * T * T <= KEPT and k.shape[2] == T and sequences is None
    if short and block is None:
        return Dense.apply(q, k, v, gamma, bias, constants)[0]
    return BlockRows.apply(q, k, v, gamma, bias, sequences, call.solved, constants)[0]


def rows_in_block(heads: int) -> int:
    """For so many heads in the whole batch, a power of two.

    >>> rows_in_block(8), rows_in_block(64), rows_in_block(1000)
    (128, 64, 32)
    """
    return min(LARGEST, max(SMALLEST, 2 ** int(math.log2(FITS / heads) / 2)))
