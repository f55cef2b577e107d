"""The CPU's fused attention, which torch differentiates but whose parts it does not offer: here with its logsumexp.

    out = Σ_j exp(s_j - lse) v_j,   lse = logsumexp_j s_j,   s_j = scale q · k_j + bias_j
    P_j = exp(s_j - lse),   dv_j = P_j^T dy,   ds_j = P_j (dy · v_j - dy · y)

Keys may be read in parts: outs are joined by their logsumexps, and the backward pass of a part is the second line with
y and lse of the whole row.

Shapes: B batch, H heads, n queries, m keys, d head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def packed(x: Tensor) -> Tensor:
    """x with the numbers of each row side by side: the fused kernel reads it so, however it lies."""
    return x if x.stride(-1) == 1 else x.contiguous()


def attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """out (B,H,n,d) and lse (B,H,n); a bias (B,H,n,m), which may be expanded and in single precision, is added too."""
    return _forward(q, k, v, 0.0, causal, attn_mask=bias, scale=scale)


def attention_adjoint(
    dy: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    y: Tensor,
    lse: Tensor,
    bias: Tensor | None,
    scale: float,
    causal: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """dq, dk and dv of these keys, given y and lse of all keys."""
    return _backward(dy, q, k, v, y, lse, 0.0, causal, attn_mask=bias, scale=scale)
