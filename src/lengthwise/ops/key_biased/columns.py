"""By columns: the bias rides along in further entries of queries and keys, through whatever attention torch has.

    q · k + b / scale = (q, 1, 1, 1) · (k, high, middle, low)

Entries of a narrow type hold a number in three parts, each exact, and no product of two loses any of them. What is lost
is lost in the sum, where |b| is large, so queries go block by block, and for each block b is counted from the largest
that it reads. Blocks after the first are read once more for the backward pass, for each would keep keys of its own.

Shapes: B batch, H heads, T queries, S keys, d head width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..checks import mapped
from .call import KeyBiasedCall

BLOCK, SHORT = 512, 128
"""Queries to a block; fewer in fp32, where a logit is off by up to 6e-8 of the bias's range in the block, which half
precision does not notice."""
UNIT = 128.0
"""What stands in the queries, so that half precision holds b / UNIT."""


def by_columns(call: KeyBiasedCall) -> Tensor:
    """As `oracle`."""
    q, k, v, bias = call.q, call.k, call.v, call.bias
    T, past = q.shape[2], k.shape[2] - q.shape[2]
    rows = SHORT if q.dtype == torch.float32 else BLOCK
    if rows >= T:
        return block(q, k, v, bias, call.scale, call.dropout)
    again = torch.is_grad_enabled() and not mapped(q, k, v, bias)  # a stack cannot be read again
    outs = []
    for queries, end in zip(q.split(rows, 2), (*range(rows, T, rows), T), strict=True):
        seen = [queries, *(x[:, :, : past + end] for x in (k, v, bias)), call.scale, call.dropout]
        outs.append(checkpoint(block, *seen, use_reentrant=False) if again else block(*seen))
    return torch.cat(outs, 2)


def block(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float, dropout: float) -> Tensor:
    """y of queries that are the last of the keys."""
    T, (S, d) = q.shape[2], k.shape[2:]
    columns = in_parts((bias - bias.detach().amax(-1, keepdim=True)) / (scale * UNIT), k.dtype)
    added = columns.shape[-1]
    q, k, v = F.pad(q, (0, added), value=UNIT), torch.cat([k, columns], -1), F.pad(v, (0, added))
    mask = None if T == S or T == 1 else torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=1 < T == S, scale=scale)
    return y[..., :d]


def in_parts(x: Tensor, dtype: torch.dtype) -> Tensor:
    """(…,1) or (…,3) numbers of this type, of which each is exact and whose sum is x to 24 digits in base 2.

    In single precision too the parts have no more digits than bfloat16, which is what some processors multiply.
    """
    if dtype == torch.float64:
        return x.to(dtype).unsqueeze(-1)
    narrow = torch.float16 if dtype == torch.float16 else torch.bfloat16
    limit = torch.finfo(narrow).max
    parts, rest = [], x.detach()
    for _ in range(3):
        parts.append(rest.clamp(-limit, limit).to(narrow).to(x.dtype))
        rest = rest - parts[-1]
    parts[0] = x + (parts[0] - x).detach()  # the whole gradient, not rounded as the number is
    return torch.stack(parts, -1).to(dtype)
