"""A call of chain attention: its arguments, checked and brought into one form.

Shapes: B batch, H heads, T queries, S keys, d head width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...errors import Error, ShapeError, in_words
from ..checks import are_edges, readable

NAME = "chain_attention"
HIDDEN = -1e9
"""Added to the logit of a key that may not be read: finite, so that a row which may read none stays finite."""


@dataclass(frozen=True)
class ChainCall:
    """All floating point tensors are in single precision or better."""

    q: Tensor
    """(B,H,T,d)"""
    k: Tensor
    """(B,H,S,d)"""
    v: Tensor
    """(B,H,T,d)"""
    gamma: Tensor
    """(1,1,1,1) or (1,H,1,1)"""
    bias: Tensor | None
    """Four dimensions, broadcastable to (B,H,T,S)."""
    sequences: Tensor | None
    """(B,S) or (1,S): the number of the sequence each key belongs to; None: one sequence a row."""
    diagonal: bool
    """Whether the paths keep each token's attention to itself."""
    scale: float
    solved: Tensor
    """(B,H,S-T,d): z of the keys before the queries."""
    causal: bool


def rates(gamma: float | Tensor, like: Tensor) -> Tensor:
    """γ as (1,1,1,1) or (1,H,1,1), in single precision or better: rounded to bfloat16, 0.999 would be 1."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    # A number is made on the device: a step that is recorded on a GPU copies none there.
    rate = gamma if isinstance(gamma, Tensor) else like.new_full((), gamma, dtype=dtype)
    return rate.to(like.device, dtype).reshape(1, -1, 1, 1)


def numbered(cu_seqlens: Tensor, like: Tensor) -> Tensor:
    """(1,T): the number of the sequence each token belongs to."""
    numbers = torch.arange(len(cu_seqlens) - 1, device=like.device)
    return torch.repeat_interleave(numbers, cu_seqlens.diff().to(like.device))[None]


def check(q, k, v, gamma, bias, key_bias, cu_seqlens, sequences, solved, causal) -> None:
    """Raises where the arguments of `chain_attention` do not fit together."""
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        raise ShapeError(
            f"{NAME}: q and v are (B,H,T,d) and k (B,H,S,d), got {list(q.shape)}, {list(v.shape)}, {list(k.shape)}."
        )
    B, H, T, d = q.shape
    S = k.shape[2]
    if 0 in (B, H, T, d):
        raise ShapeError(f"{NAME}: B, H, T and d must be at least 1, got {[B, H, T, d]}.")
    if k.shape != (B, H, S, d) or v.shape[:3] != (B, H, T) or S < T:
        raise ShapeError(
            f"{NAME}: with q {[B, H, T, d]}, k must be {[B, H, 'S', d]} with S >= {T} (every query is one of the keys) "
            f"and v {[B, H, T, 'd']}, got {list(k.shape)} and {list(v.shape)}."
        )
    if not all(x.is_floating_point() for x in (q, k, v)):
        raise Error(f"{NAME}: q, k and v must be floating point, got {q.dtype}, {k.dtype} and {v.dtype}.")
    past = 0 if solved is None else solved.shape[2]
    if past != S - T:
        raise ShapeError(
            f"{NAME}: {S} keys of {T} queries need the solved values of the first {S - T}, got those of {past}. "
            "Pass solved (B,H,S-T,d)."
        )
    if not (type(gamma) is float and 0 <= gamma < 1):
        _check_gamma(gamma, H)
    if bias is not None and not _spreads(bias.shape, (B, H, T, S)):
        raise ShapeError(f"{NAME}: bias must be broadcastable to (B,H,T,S) = {[B, H, T, S]}, got {list(bias.shape)}.")
    if key_bias is not None and key_bias.shape not in ((H, S), (B, H, S), (B, 1, S)):
        raise ShapeError(f"{NAME}: key_bias must be (H,S) = {[H, S]} or (B,H,S), got {list(key_bias.shape)}.")
    if sequences is not None and (sequences.shape != (B, S) or cu_seqlens is not None):
        raise ShapeError(f"{NAME}: sequences must be (B,S) = {[B, S]} and come without cu_seqlens.")
    if cu_seqlens is not None and (B != 1 or S != T or not are_edges(cu_seqlens, T)):
        raise ShapeError(
            f"{NAME}: cu_seqlens is [0, …, T], never falling, of one row, B = 1, without solved values, got B = {B}, "
            f"T = {T} and {cu_seqlens.tolist()}."
        )
    if not causal and (S != T or sequences is not None or cu_seqlens is not None):
        raise Error(
            f"{NAME}: without causality there is no going on from solved values, and no packing: pad the sequences, "
            "and hide the padding by key_bias."
        )


def _check_gamma(gamma, heads: int) -> None:
    if isinstance(gamma, Tensor):
        if gamma.numel() not in (1, heads) or gamma.dim() > 1:
            raise ShapeError(f"{NAME}: gamma is a number or one a head, (H,) = [{heads}], got {list(gamma.shape)}.")
        if not readable(gamma) or bool(((gamma >= 0) & (gamma < 1)).all()):
            return
    elif isinstance(gamma, int | float) and not isinstance(gamma, bool) and 0 <= gamma < 1:
        return
    raise Error(
        f"{NAME}: gamma must be at least 0 and below 1, got {in_words(gamma)}: at 1 the paths' weights no longer sum "
        "to a finite number. The paper's is 0.9."
    )


def _spreads(shape, wanted: tuple[int, ...]) -> bool:
    """True if this shape broadcasts to the one wanted."""
    return len(shape) <= 4 and all(n in (1, m) for n, m in zip(reversed(shape), reversed(wanted), strict=False))
