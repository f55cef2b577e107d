"""Block rows, never T×T, with their own adjoint.

A block of rows i reads earlier keys j by ordinary attention over their z, and its own by one triangular solve, D being
the part of A between the block's own rows and keys:

    (I - γ D̃) Y_i = Σ_{j<i} A_ij Z_j + (1-γ) D V_i                                  Z = (1-γ) V + γ Y

The adjoint goes through the blocks backwards. With R the adjoint of the right-hand side, and Z̄ the gradient of Z:

    (I - γ D̃)^T R_i = Ȳ_i + γ Z̄_i       Z̄_j += A_ij^T R_i       dA_ij = R_i Z_j^T       dS = A ∘ (dA - R · Y)

R · Y is the row sum of A ∘ dA, as in flash attention, so of A nothing is kept but the logsumexp of its rows.

Shapes: B batch, H heads, T queries, S keys of which the first p = S - T are solved, d head width, n block.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..adjoint import folded
from ..fused import attention, attention_adjoint, packed
from .call import HIDDEN
from .triangular import Constants, own_logits, solve

# Attention of a block of rows over the keys before it, and its adjoint, with the logsumexp of the whole row given.
#
#     out = Σ_j exp(s_j - lse_e) z_j,   lse_e = logsumexp_j s_j                        over the earlier keys alone
#     P_j = exp(s_j - lse),   dz_j = P_j^T R,   ds_j = P_j (R · z_j - R · Y)           lse and Y of the whole row
#
# The second line is the backward pass of ordinary attention given Y and lse in place of its own output and logsumexp,
# so the fused kernel of the CPU serves for both.
#
# Shapes: B batch, H heads, n rows, m earlier keys, d head width.


def fused(q: Tensor, z: Tensor) -> bool:
    """True if the fused kernel of the CPU takes these."""
    return q.device.type == "cpu" and q.shape[-1] == z.shape[-1]


def read(q: Tensor, k: Tensor, z: Tensor, bias: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
    """out (B,H,n,d) and lse_e (B,H,n,1)."""
    if fused(q, z):
        out, lse = attention(q, k, z, bias, scale)
        return out, lse.unsqueeze(-1)
    s = q @ k.mT * scale
    s = s if bias is None else s + bias
    lse = s.logsumexp(-1, keepdim=True)
    return (s - lse).exp_() @ z, lse


def adjoint(
    R: Tensor, q: Tensor, k: Tensor, z: Tensor, y: Tensor, lse: Tensor, bias: Tensor | None, scale: float, keep_ds: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """dq, dk, dz, and ds (B,H,n,m), which the gradient of a bias needs; None unless `keep_ds`."""
    if fused(q, z) and not keep_ds:
        dq, dk, dz = attention_adjoint(R, q, k, z, y, lse.squeeze(-1), bias, scale)
        return dq, dk, dz, None
    s = q @ k.mT * scale
    s = s if bias is None else s + bias
    P = (s - lse).exp_()
    dz = P.mT @ R
    ds = P.mul_((R @ z.mT).sub_((R * y).sum(-1, keepdim=True)))
    return ds @ k * scale, ds.mT @ q * scale, dz, ds


class RowBlock(NamedTuple):
    """The rows a..b of the queries; their keys are own, those before them lo..own.start."""

    rows: slice
    own: slice
    earlier: slice


def blocks(T: int, S: int, size: int, sequences: Tensor | None) -> list[RowBlock]:
    """Blocks of about equal size; keys of sequences that ended before a block are not among its earlier ones."""
    p = S - T
    count = -(-T // size)
    edges = [T * i // count for i in range(count + 1)]
    cut = []
    for a, b in pairwise(edges):
        low = 0
        if sequences is not None:
            low = min(p + a, int((sequences == sequences[:, p + a, None]).int().argmax(1).min()))
        cut.append(RowBlock(slice(a, b), slice(p + a, p + b), slice(low, p + a)))
    return cut


def logit_bias(
    like: Tensor, bias: Tensor | None, sequences: Tensor | None, rows: slice, own: slice, keys: slice
) -> Tensor | None:
    """Returns what is added to the logits between these rows and keys."""
    added = None
    if bias is not None:
        added = bias if bias.shape[-2] == 1 else bias[..., rows, :]
        added = added if bias.shape[-1] == 1 else added[..., keys]
    if sequences is not None:
        apart = sequences[:, None, own, None] != sequences[:, None, None, keys]
        hidden = torch.where(apart, HIDDEN, 0.0).to(like.dtype)
        added = hidden if added is None else added + hidden
    return added


class BlockRows(torch.autograd.Function):
    @staticmethod
    def forward(q, k, v, gamma, bias, sequences, solved, constants):
        (B, H, T, _), S = q.shape, k.shape[2]
        q, k = packed(q), packed(k)
        z = v.new_empty(B, H, S, v.shape[-1])
        z[:, :, : S - T] = solved
        y = torch.empty_like(v, memory_format=torch.contiguous_format)
        lse = q.new_empty(B, H, T, 1)
        for rows, own, before in blocks(T, S, constants.block, sequences):
            q_i, v_i = q[:, :, rows], v[:, :, rows]
            s = own_logits(q_i, k[:, :, own], logit_bias(q, bias, sequences, rows, own, own), constants.scale)
            total = s.logsumexp(-1, keepdim=True)
            right = None
            if before.stop > before.start:
                added = logit_bias(q, bias, sequences, rows, own, before)
                out, other = read(q_i, k[:, :, before], z[:, :, before], added, constants.scale)
                both = torch.logaddexp(total, other)
                right, total = out * (other - both).exp_(), both
            D = s.sub_(total).exp_()
            from_own = (1 - gamma) * (D @ v_i)
            right = from_own if right is None else right.add_(from_own)
            y_i = solve(D, gamma, right, constants)
            y[:, :, rows], lse[:, :, rows] = y_i, total
            z[:, :, own] = v_i + gamma * (y_i - v_i)
        return y, z, lse

    @staticmethod
    def setup_context(ctx: Any, inputs, output):
        q, k, v, gamma, bias, sequences, _, constants = inputs
        y, z, lse = output
        ctx.mark_non_differentiable(z, lse)
        ctx.save_for_backward(q, k, v, gamma, bias, sequences, y, z, lse)
        ctx.constants = constants

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs):  # pyright: ignore[reportIncompatibleMethodOverride]
        dy, saved = grad_outputs[0], ctx.saved_tensors
        with torch.autocast(dy.device.type, enabled=False):
            return *_backward(dy, saved, ctx.constants, ctx.needs_input_grad), None

    @staticmethod
    def vmap(info, in_dims, *inputs):
        return folded(BlockRows, info, in_dims, inputs)


def _backward(dy, saved, constants: Constants, needs):
    q, k, v, gamma, bias, sequences, y, z, lse = saved
    T, S = q.shape[2], k.shape[2]
    q, k = packed(q), packed(k)
    dq, dk, dz = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(z)
    own_part = torch.zeros_like(v) if not constants.diagonal else None
    dbias = torch.zeros_like(bias) if bias is not None and needs[4] else None
    for rows, own, before in reversed(blocks(T, S, constants.block, sequences)):
        q_i, k_i, v_i, y_i, lse_i = q[:, :, rows], k[:, :, own], v[:, :, rows], y[:, :, rows], lse[:, :, rows]
        D = own_logits(q_i, k_i, logit_bias(q, bias, sequences, rows, own, own), constants.scale).sub_(lse_i).exp_()
        right = dy[:, :, rows] + gamma * dz[:, :, own]
        R = solve(D, gamma, right, constants, transposed=True)
        row = (R * y_i).sum(-1, keepdim=True)
        dD = R @ z[:, :, own].mT
        if own_part is not None:
            # A token's own weight reads (1-γ)v, not z.
            diagonal = D.diagonal(0, -2, -1).unsqueeze(-1)
            own_part[:, :, rows] = diagonal * R
            dD.diagonal(0, -2, -1).copy_(((1 - gamma) * R * v_i).sum(-1))
            paths = D.tril(-1)
        else:
            paths = D
        dz[:, :, own] += paths.mT @ R
        ds = dD.sub_(row).mul_(D)
        dq_i = ds @ k_i * constants.scale
        dk[:, :, own] += ds.mT @ q_i * constants.scale
        if dbias is not None:
            _spread(dbias, ds, rows, own)
        if before.stop > before.start:
            added = logit_bias(q, bias, sequences, rows, own, before)
            out = adjoint(
                R, q_i, k[:, :, before], z[:, :, before], y_i, lse_i, added, constants.scale, dbias is not None,
            )  # fmt: skip
            dq_i += out[0]
            dk[:, :, before] += out[1]
            dz[:, :, before] += out[2]
            if dbias is not None and out[3] is not None:
                _spread(dbias, out[3], rows, before)
        dq[:, :, rows] = dq_i
    new = dz[:, :, S - T :]
    to_v = new if own_part is None else new + own_part
    dv = (1 - gamma) * to_v
    dgamma = None
    if needs[3]:
        each = new * y - to_v * v
        dgamma = each.sum_to_size(gamma.shape)
    return dq, dk, dv, dgamma, dbias, None, dz[:, :, : S - T]


def _spread(total: Tensor, ds: Tensor, rows: slice, keys: slice) -> None:
    """Add ds (B,H,n,m) to its place in the gradient of a bias, summed over what the bias is shared by."""
    place = total if total.shape[-2] == 1 else total[..., rows, :]
    place = place if total.shape[-1] == 1 else place[..., keys]
    place += ds.sum_to_size(place.shape)
