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
    stride: int,
) -> Tensor:
    T, S, C = q.shape[2], k.shape[2], bias.shape[1]
    m = torch.arange(S - 1 - (T - 1) * stride, S, stride, device=q.device)
    pad_k, pad_v = (None, None) if pad is None else pad

    q = q * scale
    logits, values = [], []
    for j in range(C):
        lag = j * dilation
        missing = None
        if j > 0 and positions is not None:
            missing = ((m < lag) | (positions < lag))[:, None, :, None]
        logit = (q * _tap(k, lag, T, stride, missing, pad_k)).sum(-1) + bias[:, j, None]
        if j > 0 and pad is None:
            absent = m < lag if missing is None else missing[..., 0]
            logit = logit.masked_fill(absent, -torch.inf)
        logits.append(logit)
        values.append(_tap(v, lag, T, stride, missing, pad_v))

    # Taps come first: a softmax over a last dimension of two or three is several times slower.
    weights = torch.stack(logits).softmax(0)[..., None]
    y = weights[0] * values[0]
    for j in range(1, C):
        y = y + weights[j] * values[j]
    return y


def _tap(x: Tensor, lag: int, T: int, stride: int, missing: Tensor | None, fill: Tensor | None) -> Tensor:
    """(B,H,T,d): for each query's column, the one `lag` before it; `fill`, or anything finite, where missing."""
    S = x.shape[2]
    first = S - 1 - (T - 1) * stride - lag
    lost = min(T, max(0, -(first // stride)))
    shifted = x[:, :, first + lost * stride : S - lag : stride] if lost < T else x[:, :, :0]
    if lost:
        # Columns before the first are missing whatever the positions say.
        absent = x[:, :, :1] if fill is None else fill[:, None, :]
        shifted = torch.cat([absent.expand(*x.shape[:2], lost, x.shape[3]), shifted], 2)
    if missing is not None and fill is not None:
        shifted = torch.where(missing, fill[:, None, :], shifted)
    return shifted
