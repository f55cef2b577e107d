"""Block rows, never T×T, with their own adjoint.

A block of rows i reads earlier keys j by ordinary attention over their z, and its own by one triangular solve, D being
the part of A between the block's own rows and keys:

    (I - γ D̃) Y_i = Σ_{j<i} A_ij Z_j + (1-γ) D V_i                                  Z = (1-γ) V + γ Y

The adjoint goes through the blocks backwards. With R the adjoint of the right-hand side, and Z̄ what is asked of Z:

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

from .earlier import adjoint, packed, read
from .inputs import HIDDEN
from .stacked import folded
from .system import Form, own_logits, solve


class Block(NamedTuple):
    """The rows a..b of the queries; their keys are own, those before them lo..own.start."""

    rows: slice
    own: slice
    earlier: slice


def blocks(T: int, S: int, size: int, segments: Tensor | None) -> list[Block]:
    """Blocks of about equal size; keys of sequences that ended before a block are not among its earlier ones."""
    p = S - T
    count = -(-T // size)
    edges = [T * i // count for i in range(count + 1)]
    found = []
    for a, b in pairwise(edges):
        low = 0
        if segments is not None:
            low = min(p + a, int((segments == segments[:, p + a, None]).int().argmax(1).min()))
        found.append(Block(slice(a, b), slice(p + a, p + b), slice(low, p + a)))
    return found


def part(
    like: Tensor, bias: Tensor | None, segments: Tensor | None, rows: slice, own: slice, keys: slice
) -> Tensor | None:
    """What is added to the logits between these rows and keys."""
    found = None
    if bias is not None:
        found = bias if bias.shape[-2] == 1 else bias[..., rows, :]
        found = found if bias.shape[-1] == 1 else found[..., keys]
    if segments is not None:
        apart = segments[:, None, own, None] != segments[:, None, None, keys]
        hidden = torch.where(apart, HIDDEN, 0.0).to(like.dtype)
        found = hidden if found is None else found + hidden
    return found


class Blocks(torch.autograd.Function):
    @staticmethod
    def forward(q, k, v, gamma, bias, segments, solved, form):
        (B, H, T, _), S = q.shape, k.shape[2]
        q, k = packed(q), packed(k)
        z = v.new_empty(B, H, S, v.shape[-1])
        z[:, :, : S - T] = solved
        y = torch.empty_like(v, memory_format=torch.contiguous_format)
        lse = q.new_empty(B, H, T, 1)
        for rows, own, before in blocks(T, S, form.block, segments):
            q_i, v_i = q[:, :, rows], v[:, :, rows]
            s = own_logits(q_i, k[:, :, own], part(q, bias, segments, rows, own, own), form.scale)
            total = s.logsumexp(-1, keepdim=True)
            right = None
            if before.stop > before.start:
                more = part(q, bias, segments, rows, own, before)
                out, other = read(q_i, k[:, :, before], z[:, :, before], more, form.scale)
                both = torch.logaddexp(total, other)
                right, total = out * (other - both).exp_(), both
            D = s.sub_(total).exp_()
            from_own = (1 - gamma) * (D @ v_i)
            right = from_own if right is None else right.add_(from_own)
            y_i = solve(D, gamma, right, form)
            y[:, :, rows], lse[:, :, rows] = y_i, total
            z[:, :, own] = v_i + gamma * (y_i - v_i)
        return y, z, lse

    @staticmethod
    def setup_context(ctx: Any, inputs, output):
        q, k, v, gamma, bias, segments, _, form = inputs
        y, z, lse = output
        ctx.mark_non_differentiable(z, lse)
        ctx.save_for_backward(q, k, v, gamma, bias, segments, y, z, lse)
        ctx.form = form

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs):  # pyright: ignore[reportIncompatibleMethodOverride]
        q, k, v, gamma, bias, segments, y, z, lse = ctx.saved_tensors
        with torch.autocast(q.device.type, enabled=False):
            return (
                *_backward(grad_outputs[0], q, k, v, gamma, bias, segments, y, z, lse, ctx.form, ctx.needs_input_grad),
                None,
            )

    @staticmethod
    def vmap(info, in_dims, *inputs):
        return folded(Blocks, info, in_dims, inputs)


def _backward(dy, q, k, v, gamma, bias, segments, y, z, lse, form: Form, needs):
    T, S = q.shape[2], k.shape[2]
    q, k = packed(q), packed(k)
    dq, dk, dz = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(z)
    own_part = torch.zeros_like(v) if not form.diagonal else None
    dbias = torch.zeros_like(bias) if bias is not None and needs[4] else None
    for rows, own, before in reversed(blocks(T, S, form.block, segments)):
        q_i, k_i, v_i, y_i, lse_i = q[:, :, rows], k[:, :, own], v[:, :, rows], y[:, :, rows], lse[:, :, rows]
        D = own_logits(q_i, k_i, part(q, bias, segments, rows, own, own), form.scale).sub_(lse_i).exp_()
        right = dy[:, :, rows] + gamma * dz[:, :, own]
        R = solve(D, gamma, right, form, transposed=True)
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
        dq_i = ds @ k_i * form.scale
        dk[:, :, own] += ds.mT @ q_i * form.scale
        if dbias is not None:
            _spread(dbias, ds, rows, own)
        if before.stop > before.start:
            more = part(q, bias, segments, rows, own, before)
            out = adjoint(
                R, q_i, k[:, :, before], z[:, :, before], y_i, lse_i, more, form.scale, dbias is not None,
            )  # fmt: skip
            dq_i += out[0]
            dk[:, :, before] += out[1]
            dz[:, :, before] += out[2]
            if dbias is not None and out[3] is not None:
                _spread(dbias, out[3], rows, before)
        dq[:, :, rows] = dq_i
    new = dz[:, :, S - T :]
    asked = new if own_part is None else new + own_part
    dv = (1 - gamma) * asked
    dgamma = None
    if needs[3]:
        each = new * y - asked * v
        dgamma = each.sum_to_size(gamma.shape)
    return dq, dk, dv, dgamma, dbias, None, dz[:, :, : S - T]


def _spread(total: Tensor, ds: Tensor, rows: slice, keys: slice) -> None:
    """Add ds (B,H,n,m) to its place in the gradient of a bias, summed over what the bias is shared by."""
    place = total if total.shape[-2] == 1 else total[..., rows, :]
    place = place if total.shape[-1] == 1 else place[..., keys]
    place += ds.sum_to_size(place.shape)
