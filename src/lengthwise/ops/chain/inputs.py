"""What chain attention is given, checked and brought into one form.

Shapes: B batch, H heads, T queries, S keys, d head width.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor  # pyright: ignore[reportMissingImports]

from ...errors import Error, ShapeError

OP = "chain_attention"
HIDDEN = -1e9
"""Added to the logit of a key that may not be read: finite, so that a row which may read none stays finite."""


def rates(gamma: float | Tensor, like: Tensor) -> Tensor:
    """γ as (1,1,1,1) or (1,H,1,1), in single precision or better: rounded to bfloat16, 0.999 would be 1."""
    kind = torch.promote_types(like.dtype, torch.float32)
    return torch.as_tensor(gamma, dtype=kind, device=like.device).reshape(1, -1, 1, 1)


def in_single(like: Tensor):
    """Within it autocast is off: what is given in half precision is summed in single."""
    kind = like.device.type
    # Asking is cheaper than turning off what is off, which counts where one token is decoded.
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def numbered(cu_seqlens: Tensor, like: Tensor) -> Tensor:
    """(1,T): the number of the sequence each token belongs to."""
    numbers = torch.arange(len(cu_seqlens) - 1, device=like.device)
    return torch.repeat_interleave(numbers, cu_seqlens.diff().to(like.device))[None]


def check(q, k, v, gamma, bias, key_bias, cu_seqlens, segments, solved, causal) -> None:
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
    if not all(x.is_floating_point() for x in (q, k, v)):
        raise Error(f"{OP}: q, k and v must be floating point, got {q.dtype}, {k.dtype} and {v.dtype}.")
    past = 0 if solved is None else solved.shape[2]
    if past != S - T:
        raise ShapeError(
            f"{OP}: {S} keys of {T} queries need the solved values of the first {S - T}, got those of {past}. "
            "Pass solved (B,H,S-T,d)."
        )
    _check_gamma(gamma, H)
    if bias is not None and not _spreads(bias.shape, (B, H, T, S)):
        raise ShapeError(f"{OP}: bias must be broadcastable to (B,H,T,S) = {[B, H, T, S]}, got {list(bias.shape)}.")
    if key_bias is not None and key_bias.shape not in ((H, S), (B, H, S), (B, 1, S)):
        raise ShapeError(f"{OP}: key_bias must be (H,S) = {[H, S]} or (B,H,S), got {list(key_bias.shape)}.")
    if segments is not None and (segments.shape != (B, S) or cu_seqlens is not None):
        raise ShapeError(f"{OP}: segments must be (B,S) = {[B, S]} and come without cu_seqlens.")
    if cu_seqlens is not None and (B != 1 or S != T or not _edges(cu_seqlens, T)):
        raise ShapeError(
            f"{OP}: cu_seqlens is [0, …, T], never falling, of one row, B = 1, without solved values, got B = {B}, "
            f"T = {T} and {cu_seqlens.tolist()}."
        )
    if not causal and (S != T or segments is not None or cu_seqlens is not None):
        raise Error(
            f"{OP}: without causality there is no going on from solved values, and no packing: pad the sequences, "
            "and hide the padding by key_bias."
        )


def _check_gamma(gamma, heads: int) -> None:
    if isinstance(gamma, Tensor):
        if gamma.numel() not in (1, heads) or gamma.dim() > 1:
            raise ShapeError(f"{OP}: gamma is a number or one a head, (H,) = [{heads}], got {list(gamma.shape)}.")
        # To look into a tensor is not possible in a compiled graph or a stack, and makes the CPU wait for a GPU.
        hidden = torch.compiler.is_compiling() or is_functorch_wrapped_tensor(gamma)
        if hidden or gamma.device.type != "cpu" or bool(((gamma >= 0) & (gamma < 1)).all()):
            return
    elif isinstance(gamma, int | float) and 0 <= gamma < 1:
        return
    raise Error(
        f"{OP}: gamma must be at least 0 and below 1, got {gamma}: at 1 the paths' weights no longer sum to a finite "
        "number. The paper's is 0.9."
    )


def _spreads(shape, wanted: tuple[int, ...]) -> bool:
    """Whether this shape broadcasts to the one wanted."""
    return len(shape) <= 4 and all(n in (1, m) for n, m in zip(reversed(shape), reversed(wanted), strict=False))


def _edges(cu_seqlens: Tensor, T: int) -> bool:
    found = cu_seqlens.tolist()
    return found[0] == 0 and found[-1] == T and found == sorted(found)
