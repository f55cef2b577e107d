"""The oracle of key-biased attention: all logits, in double precision."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .call import KeyBiasedCall


def oracle(call: KeyBiasedCall) -> Tensor:
    """y (B,H,T,d)"""
    q, k, v = (x.to(call.bias.dtype) for x in (call.q, call.k, call.v))
    T, S = q.shape[2], k.shape[2]
    # Counted from the largest that each query reads, or the logits would have no digits left beside a large bias.
    largest = call.bias.detach().cummax(-1).values[..., S - T :, None]
    logits = q @ k.mT * call.scale + (call.bias.unsqueeze(-2) - largest)
    later = torch.ones(T, S, dtype=torch.bool, device=q.device).triu(S - T + 1)
    weights = F.dropout(logits.masked_fill(later, -torch.inf).softmax(-1), call.dropout)
    return (weights @ v).to(call.v.dtype)
