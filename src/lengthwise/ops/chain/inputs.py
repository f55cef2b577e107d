"""What chain attention is given, checked and brought into one form.

Shapes: B batch, H heads, T queries, S keys, d head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import Error, ShapeError

OP = "chain_attention"


def rates(gamma: float | Tensor, like: Tensor) -> Tensor:
    """γ as (1,1,1,1) or (1,H,1,1), in single precision or better: rounded to bfloat16, 0.999 would be 1."""
    kind = torch.promote_types(like.dtype, torch.float32)
    return torch.as_tensor(gamma, dtype=kind, device=like.device).reshape(1, -1, 1, 1)


def in_single(like: Tensor):
    """Within it autocast is off: what is given in half precision is summed in single."""
    return torch.autocast(like.device.type, enabled=False)


def numbered(cu_seqlens: Tensor, like: Tensor) -> Tensor:
    """(1,T): the number of the sequence each token belongs to."""
    numbers = torch.arange(len(cu_seqlens) - 1, device=like.device)
    return torch.repeat_interleave(numbers, cu_seqlens.diff().to(like.device))[None]


def check(q, k, v, gamma, key_bias, cu_seqlens, segments, solved, causal) -> None:
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        raise ShapeError(
            f"{OP}: q and v are (B,H,T,d) and k (B,H,S,d), got {list(q.shape)}, {list(v.shape)}, {list(k.shape)}."
        )
    B, H, T, d = q.shape
    S = k.shape[2]
    if T == 0:
        raise ShapeError(f"{OP}: there must be at least one query, got T = 0.")
    if k.shape != (B, H, S, d) or v.shape[:3] != (B, H, T) or S < T:
        raise ShapeError(
            f"{OP}: with q {[B, H, T, d]}, k must be {[B, H, 'S', d]} with S >= {T} (every query is one of the keys) "
            f"and v {[B, H, T, 'd']}, got {list(k.shape)} and {list(v.shape)}."
        )
    past = 0 if solved is None else solved.shape[2]
    if past != S - T:
        raise ShapeError(
            f"{OP}: {S} keys of {T} queries need the solved values of the first {S - T}, got those of {past}. "
            "Pass solved (B,H,S-T,d)."
        )
    if isinstance(gamma, Tensor):
        if gamma.numel() not in (1, H) or gamma.dim() > 1:
            raise ShapeError(f"{OP}: gamma is a number or one a head, (H,) = [{H}], got {list(gamma.shape)}.")
    elif not 0 <= gamma < 1:
        raise Error(
            f"{OP}: gamma must be at least 0 and below 1, got {gamma}: at 1 the paths' weights no longer sum to a "
            "finite number. The paper's is 0.9."
        )
    if key_bias is not None and key_bias.shape not in ((H, S), (B, H, S), (B, 1, S)):
        raise ShapeError(f"{OP}: key_bias must be (H,S) = {[H, S]} or (B,H,S), got {list(key_bias.shape)}.")
    if segments is not None and (segments.shape != (B, S) or cu_seqlens is not None):
        raise ShapeError(f"{OP}: segments must be (B,S) = {[B, S]} and come without cu_seqlens.")
    if cu_seqlens is not None and (B != 1 or S != T or int(cu_seqlens[0]) != 0 or int(cu_seqlens[-1]) != T):
        raise ShapeError(
            f"{OP}: cu_seqlens is [0, …, T] of one row, B = 1, without solved values, got B = {B}, T = {T} and "
            f"{cu_seqlens.tolist()}."
        )
    if not causal and (S != T or segments is not None or cu_seqlens is not None):
        raise Error(
            f"{OP}: without causality there is no going on from solved values, and no packing: pad the sequences, "
            "and hide the padding by key_bias."
        )
