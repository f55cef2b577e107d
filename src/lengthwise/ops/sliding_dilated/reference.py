"""The oracle: a dense softmax under a mask that says, key by key, which tap it is."""

from __future__ import annotations

import torch
from torch import Tensor

from .call import DilatedCall


def oracle(call: DilatedCall) -> Tensor:
    """y (B,H,T,d)"""
    q, k, v, bias, positions = call.q, call.k, call.v, call.bias, call.positions
    T, S, C = q.shape[2], k.shape[2], bias.shape[1]
    m = torch.arange(S - 1 - (T - 1) * call.stride, S, call.stride, device=q.device)
    if positions is None:
        positions = m.expand(q.shape[0], T)

    lag = m[:, None] - torch.arange(S, device=q.device)
    j = lag // call.dilation
    tap = (lag % call.dilation == 0) & (j >= 0) & (j < C)
    seen = tap & ((lag <= positions[:, None, :, None]) | (lag == 0))
    logits = (q @ k.mT) * call.scale + bias[:, j.clamp(0, C - 1)]
    logits = logits.masked_fill(~seen, -torch.inf)
    if call.pad is None:
        return logits.softmax(-1) @ v

    # One more column per tap: the pad, present exactly where the tap is not.
    lags = torch.arange(C, device=q.device) * call.dilation
    missing = (lags > m[:, None]) | (lags > positions[:, None, :, None])
    missing = missing & (lags > 0)
    pad_k, pad_v = call.pad
    pad_logits = (q @ pad_k[:, :, None]) * call.scale + bias[:, None, :]
    pad_logits = pad_logits.masked_fill(~missing, -torch.inf)
    weights = torch.cat([logits, pad_logits], -1).softmax(-1)
    return weights[..., :S] @ v + weights[..., S:].sum(-1, keepdim=True) * pad_v[:, None, :]
