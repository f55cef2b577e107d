"""The fast form: one shift of the keys and values per tap, so memory is C times T and never T times T."""

from __future__ import annotations

import torch
from torch import Tensor


def by_taps(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor,
    dilation: int,
    pad: tuple[Tensor, Tensor] | None,
    positions: Tensor | None,
    scale: float,
) -> Tensor:
    T, S, C = q.shape[2], k.shape[2], bias.shape[1]
    m = torch.arange(S - T, S, device=q.device)[None]
    pad_k, pad_v = (None, None) if pad is None else pad

    q = q * scale
    logits, values = [], []
    for j in range(C):
        lag = j * dilation
        missing = None
        if j > 0 and (positions is not None or lag > S - T):
            missing = m < lag if positions is None else (m < lag) | (positions < lag)
            missing = missing[:, None, :, None]
        logit = (q * _tap(k, lag, T, missing, pad_k)).sum(-1) + bias[:, j, None]
        if missing is not None and pad is None:
            logit = logit.masked_fill(missing[..., 0], -torch.inf)
        logits.append(logit)
        values.append(_tap(v, lag, T, missing, pad_v))

    weights = torch.stack(logits, -1).softmax(-1)
    y = weights[..., 0, None] * values[0]
    for j in range(1, C):
        y = y + weights[..., j, None] * values[j]
    return y


def _tap(x: Tensor, lag: int, T: int, missing: Tensor | None, fill: Tensor | None) -> Tensor:
    """(B,H,T,d): for each of the last T columns, the one `lag` before it; `fill`, or anything finite, where missing."""
    S = x.shape[2]
    shifted = x[:, :, max(S - T - lag, 0) : max(S - lag, 0)]
    if lost := T - shifted.shape[2]:
        # The columns before the first are missing by construction, so what stands there is never read.
        shifted = torch.cat([x[:, :, :lost], shifted], 2)
    if missing is not None and fill is not None:
        shifted = torch.where(missing, fill[:, None, :], shifted)
    return shifted
