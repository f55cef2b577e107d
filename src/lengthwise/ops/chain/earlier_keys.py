"""Attention of a block of rows over the keys before it, and its adjoint, with the logsumexp of the whole row given.

    out = Σ_j exp(s_j - lse_e) z_j,   lse_e = logsumexp_j s_j                        over the earlier keys alone
    P_j = exp(s_j - lse),   dz_j = P_j^T R,   ds_j = P_j (R · z_j - R · Y)           lse and Y of the whole row

The second line is the backward pass of ordinary attention given Y and lse in place of its own output and logsumexp, so
the fused kernel of the CPU serves for both.

Shapes: B batch, H heads, n rows, m earlier keys, d head width.
"""

from __future__ import annotations

from torch import Tensor

from ..fused import attention, attention_adjoint


def fused(q: Tensor, z: Tensor) -> bool:
    """Whether the fused kernel of the CPU takes these."""
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
