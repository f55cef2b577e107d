"""By squares: the triangle of a causal text is cut into squares of queries and earlier keys, and small triangles on the
diagonal. Each is read by fused attention, and what a query read in its parts is joined by their logsumexps.

    ◣               rows are queries, columns keys, in blocks: 1 is a square of one block,
    1 ◣             2 2 over 2 2 a square of two by two
    2 2 ◣           y = Σ_i exp(lse_i - lse) y_i,    lse = logsumexp_i lse_i
    2 2 1 ◣

In a square the bias is counted from the largest of its keys, so that it has all its digits where it matters: a key far
below the best of its square has no weight anyway. In a triangle it is counted, pair by pair, from the largest that the
query reads, max_{s <= t} b_s, and so is lse.

The gradient of the bias is the column sum of that of the logits. It is the gradient of one more entry in each key, to
which one more entry of each query is 1: dk = scale ds^T q.

Shapes: B batch, H heads, T queries, S keys, d head width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..adjoint import with_adjoint
from ..fused import attention, attention_adjoint, packed
from .call import NAME, KeyBiasedCall

BLOCK, LARGE = 64, 1024
"""Queries to a block of the diagonal. In half precision every part that a query reads is rounded, so blocks are LARGE
and are counted as squares are: there a logit may be off by 6e-8 of the range of b."""


class SquarePart(NamedTuple):
    rows: slice
    keys: slice
    causal: bool


def parts(T: int, S: int, dtype: torch.dtype) -> Iterator[SquarePart]:
    """Every query's first part comes before its others.

    >>> [(part.rows.start, part.keys.start) for part in parts(256, 256, torch.float32) if not part.causal]
    [(64, 0), (192, 128), (128, 0)]
    """
    past, block = S - T, LARGE if dtype.itemsize < 4 else BLOCK
    if T == 1:
        yield SquarePart(slice(0, 1), slice(0, S), False)
        return
    for a in range(0, T, block):
        b = min(a + block, T)
        yield SquarePart(slice(a, b), slice(past + a, past + b), True)
    size = block
    while size < T:
        for a in range(size, T, 2 * size):
            yield SquarePart(slice(a, min(a + size, T)), slice(past + a - size, past + a), False)
        size *= 2
    if past:
        yield SquarePart(slice(0, T), slice(0, past), False)


def counted(bias: Tensor, reached: Tensor, part: SquarePart, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The part's bias, (B,H,n,m), and from what it is counted, (B,H,n) or (B,H,1), as seen from `reached` (B,H,T)."""
    b, reached = bias[..., part.keys], reached[..., part.rows]
    if part.causal and dtype.itemsize >= 4:
        return (b.unsqueeze(-2) - reached.unsqueeze(-1)).to(dtype), torch.zeros_like(reached[..., :1])
    largest = b.amax(-1, keepdim=True)
    added = (b - largest).to(torch.promote_types(dtype, torch.float32))
    # Without memory for its rows.
    return added.unsqueeze(-2).expand(-1, -1, reached.shape[-1], -1), largest - reached


def values(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """y (B,H,T,d) and its logsumexp (B,H,T), in fp64 and counted from the largest bias that the query reads."""
    q, k, v = packed(q), packed(k), packed(v)
    (B, H, T, d), S = q.shape, k.shape[2]
    y = q.new_empty(B, T, H, d, dtype=torch.promote_types(q.dtype, torch.float32)).transpose(1, 2)
    reached = bias.cummax(-1).values[..., S - T :]
    lse = torch.empty_like(reached)
    read = 0  # how many queries have read a part
    for part in parts(T, S, q.dtype):
        rows, keys, causal = part
        added, origin = counted(bias, reached, part, q.dtype)
        out, its = attention(q[:, :, rows], k[:, :, keys], v[:, :, keys], added, scale, causal)
        its = its + origin
        if rows.start >= read:
            y[:, :, rows], lse[:, :, rows], read = out, its, rows.stop
            continue
        joined = torch.logaddexp(lse[:, :, rows], its)
        before, now = ((x - joined).exp_().to(y.dtype).unsqueeze(-1) for x in (lse[:, :, rows], its))
        y[:, :, rows].mul_(before).addcmul_(out.to(y.dtype), now)
        lse[:, :, rows] = joined
    return y.to(q.dtype), lse


def gradients(dy, q, k, v, bias, y, lse, scale: float, needs: list[bool]) -> tuple[Tensor | None, ...]:
    """dq, dk, dv, and that of the bias, (B,H,S), if it is needed."""
    with_bias = needs[3]
    queries, d = q, q.shape[-1]
    if with_bias:
        dy, k, v, y = (F.pad(x, (0, 1)) for x in (dy, k, v, y))
        q = F.pad(q, (0, 1), value=1.0)
    dy, q, k, v, y = (packed(x) for x in (dy, q, k, v, y))
    wide = torch.promote_types(q.dtype, torch.float32)
    sums = [x.new_zeros(x.transpose(1, 2).shape, dtype=wide).transpose(1, 2) for x in (q, k, v)]
    T, S = q.shape[2], k.shape[2]
    reached = bias.cummax(-1).values[..., S - T :]
    for part in parts(T, S, q.dtype):
        rows, keys, causal = part
        added, origin = counted(bias, reached, part, q.dtype)
        its = (lse[:, :, rows] - origin).to(wide)
        pieces = attention_adjoint(
            dy[:, :, rows], q[:, :, rows], k[:, :, keys], v[:, :, keys], y[:, :, rows], its, added, scale, causal,
        )  # fmt: skip
        for total, of_part, place in zip(sums, pieces, (rows, keys, keys), strict=True):
            total[:, :, place] += of_part
    dbias = sums[1][..., d].to(bias.dtype) / scale if with_bias else None
    dq, dk, dv = (x[..., :d].to(queries.dtype) for x in sums)
    return dq, dk, dv, dbias


def _gradient_shapes(dy, q, k, v, bias, y, lse, scale, needs):
    return *(x.new_empty(x.shape) for x in (q, k, v)), bias.new_empty(bias.shape) if needs[3] else dy.new_empty(0)


_with_gradients = with_adjoint(
    NAME,
    values,
    gradients,
    lambda q, k, v, bias, scale: ((q, k, v, bias), (scale,)),
    schemas=(
        "(Tensor q, Tensor k, Tensor v, Tensor bias, float scale) -> (Tensor, Tensor)",
        "(Tensor dy, Tensor q, Tensor k, Tensor v, Tensor bias, Tensor y, Tensor lse, float scale, bool[] needs) "
        "-> (Tensor, Tensor, Tensor, Tensor)",
    ),
    shapes=(lambda q, k, v, bias, scale: (q.new_empty(q.shape), bias.new_empty(q.shape[:3])), _gradient_shapes),
)


def supports(call: KeyBiasedCall) -> str | None:
    """Returns why this kernel cannot take the call, if it cannot."""
    if call.q.device.type != "cpu":
        return f"q is on {call.q.device.type}, and it is the CPU's fused attention that says its logsumexp"
    if call.dropout:
        return "fused attention on a CPU drops no weights"
    return None


def by_squares(call: KeyBiasedCall) -> Tensor:
    """As `oracle`."""
    # Unpacked here: autograd and torch.compile see tensors only where each is an argument.
    return _with_gradients(call.q, call.k, call.v, call.bias, call.scale)[0]
