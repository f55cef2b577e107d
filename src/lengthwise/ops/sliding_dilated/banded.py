"""For many taps: banded blocks, so that the work is matrix products.

Queries and keys that read each other stand a multiple of D = C^l apart. Cut by residue modulo D, counted from the last
token, each part is a sequence of its own in which a query reads the C tokens up to itself. Its queries are taken in
blocks, and each block meets the window of keys that any of its queries reads:

    logits[i, c] = q[i] · k[c] / sqrt(d) + r[lag],    lag = i - c in 0 … C-1, elsewhere -inf

Keys before the first token are the pad's. With every stride-th query of a sequence not dilated, blocks of queries meet
blocks of `stride` times as many keys; at stride C a block is one query and its window is its own chunk.

Shapes: as in the package; R residues, N blocks, b queries and h keys to a block, W keys to a window.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .call import Call, on_left


def by_banded_blocks(call: Call) -> Tensor:
    """Either the stride or the dilation must be 1."""
    q, k, bias, dilation, pad, stride = call.q, call.k, call.bias, call.dilation, call.pad, call.stride
    T, C = q.shape[2], bias.shape[1]
    n = -(-T // dilation)  # queries to a residue
    b = block_size(C, n, stride)
    N = -(-n // b)
    h = b * stride
    before = -(-(C - stride) // h)  # blocks of keys which a window reaches back

    def windows(x: Tensor, fill: Tensor | None) -> Tensor:
        """(B,H,R,N,W,d)"""
        x = _residues(x, N + before, h, T, dilation, fill)
        if N == 1:
            return x.flatten(3, 4)[:, :, :, None]
        return torch.cat([x[:, :, :, i : i + N] for i in range(before + 1)], 4)

    pad_k, pad_v = (None, None) if pad is None else pad
    queries = _residues(q * call.scale, N, b, T, dilation, None)
    keys, values = windows(k, pad_k), windows(call.v, pad_v)
    logits = queries @ keys.mT

    ends = torch.arange(before * h + stride - 1, (before + 1) * h, stride, device=q.device)
    lag = ends[:, None] - torch.arange(keys.shape[4], device=q.device)
    hidden = None
    if pad is None or call.positions is not None:
        reach = _residues(call.reach()[:, None, :, None], N, b, T, dilation, None)
        hidden = reach < lag * dilation
        if pad_k is None:
            logits = logits.masked_fill(hidden, -torch.inf)
        else:
            logits = torch.where(hidden, queries @ pad_k[:, None, None, :, None], logits)

    band = bias[:, lag.clamp(0, C - 1)].masked_fill((lag < 0) | (lag >= C), -torch.inf)
    w = (logits + band[:, None, None]).softmax(-1).to(call.v.dtype)
    if hidden is None or pad_v is None:
        y = w @ values
    else:
        spare = (w * hidden).sum(-1, keepdim=True)
        y = w.masked_fill(hidden, 0.0) @ values + spare * pad_v[:, None, None, None, :]
    return y.movedim(2, 4).flatten(2, 4)[:, :, -T:]


def block_size(C: int, n: int, stride: int) -> int:
    """How many of n queries to a block: half a chunk. Fewer make small products, more make windows with much waste."""
    return min(n, max(1, max(8, C // 2) // stride))


def _residues(x: Tensor, count: int, size: int, T: int, dilation: int, fill: Tensor | None) -> Tensor:
    """(B,H,S,d) to (B,H,R,count,size,d): the last columns by residue and block, `fill` before the first of them."""
    needed = count * size * dilation
    x = x[:, :, max(0, x.shape[2] - needed) :]
    x = on_left(x, needed - x.shape[2], fill).unflatten(2, (count, size, dilation))
    # With fewer queries than residues, the other residues have none.
    return x[..., max(0, dilation - T) :, :].movedim(4, 2)
