"""For few taps: the keys and values are copied once for each tap, shifted by it, so memory is C times T and never T
times T.

With two taps the softmax is the sigmoid of a difference, and one product does for two:

    w[m] = sigmoid(q[m] · (k[m - D] - k[m]) / sqrt(d) + r[1] - r[0]),    y[m] = v[m] + w[m] (v[m - D] - v[m])

Shapes: as in the package. A layer hands over (B,T,H,d) with two axes swapped in the shape but not in memory. Work costs
twice as much where the operands differ in their order in memory, so all is done in that of the queries.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .call import Call, on_left


def by_shifted_copies(call: Call) -> Tensor:
    q, k, v, bias, pad, dilation, stride = call.q, call.k, call.v, call.bias, call.pad, call.dilation, call.stride
    C = bias.shape[1]
    axis = 1 if q.stride(1) < q.stride(2) else 2
    hidden = None
    if pad is None or call.positions is not None:
        lags = torch.arange(C, device=q.device)[:, None, None, None] * dilation
        hidden = call.reach().unsqueeze(3 - axis) < lags
    pad_k, pad_v = (None, None) if pad is None else pad
    if axis == 1:
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    T = q.shape[axis]
    keys = _shifted(k, T, C, dilation, stride, axis, pad_k, hidden)
    values = _shifted(v, T, C, dilation, stride, axis, pad_v, hidden)

    if C == 2:
        logit = (q * (keys[1] - keys[0])).sum(-1) * call.scale + (bias[:, 1] - bias[:, 0]).unsqueeze(axis - 1)
        w = logit.sigmoid()
        if hidden is not None and pad is None:
            w = w.masked_fill(hidden[1], 0.0)
        y = torch.lerp(values[0], values[1], w.to(v.dtype)[..., None])
    else:
        # Taps come first: a softmax over a last dimension of three is several times slower.
        logits = torch.stack([(q * key).sum(-1) for key in keys]) * call.scale + bias.T[:, None].unsqueeze(axis + 1)
        if hidden is not None and pad is None:
            logits = logits.masked_fill(hidden, -torch.inf)
        w = logits.softmax(0).to(v.dtype)[..., None]
        y = w[0] * values[0]
        for j in range(1, C):
            y = torch.addcmul(y, w[j], values[j])
    return y.transpose(1, 2) if axis == 1 else y


def _shifted(
    x: Tensor, T: int, C: int, dilation: int, stride: int, axis: int, fill: Tensor | None, hidden: Tensor | None
) -> list[Tensor]:
    """For each tap, what every query finds there; `fill`, or anything finite, where there is nothing."""
    if stride == C and dilation == 1:
        # Chunks that do not overlap: cut apart, which is undone in the backward pass by one stack.
        x = x.narrow(axis, max(0, x.shape[axis] - T * C), min(x.shape[axis], T * C))
        x = on_left(x, T * C - x.shape[axis], fill, axis)
        taps = list(x.unflatten(axis, (T, C)).unbind(axis + 1))[::-1]
    else:
        # A query that is the only one finds one key, or none.
        taps = [
            x.narrow(axis, x.shape[axis] - 1 - j * dilation, 1)
            if T == 1 and j * dilation < x.shape[axis]
            else _tap(x, j * dilation, T, stride, axis, fill)
            for j in range(C)
        ]
    if hidden is not None and fill is not None:
        fill = fill.to(x.dtype).unsqueeze(axis - 1)
        taps = [taps[0], *(torch.where(hidden[j, ..., None], fill, taps[j]) for j in range(1, C))]
    return taps


def _tap(x: Tensor, lag: int, T: int, stride: int, axis: int, fill: Tensor | None) -> Tensor:
    S = x.shape[axis]
    first = S - 1 - (T - 1) * stride - lag
    lost = min(T, max(0, -(first // stride)))
    kept = slice(first + lost * stride, S - lag, stride) if lost < T else slice(0, 0)
    return on_left(x[:, kept] if axis == 1 else x[:, :, kept], lost, fill, axis)
