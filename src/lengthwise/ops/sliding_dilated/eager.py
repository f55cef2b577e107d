"""By torch's operators: shifted copies for few taps, matrix products for many. It never builds T times T.

Where the choice of form and of sizes rests on measurement, `docs/earlier-log.md` has the figures.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from .call import DilatedCall, on_left

# For many taps: banded blocks, so that the work is matrix products.
#
# Queries and keys that read each other stand a multiple of D = C^l apart. Cut by residue modulo D, counted from the
# last token, each part is a sequence of its own in which a query reads the C tokens up to itself. Its queries are taken
# in blocks, and each block meets the window of keys that any of its queries reads:
#
#     logits[i, c] = q[i] · k[c] / sqrt(d) + r[lag],    lag = i - c in 0 … C-1, elsewhere -inf
#
# Keys before the first token are the pad's. With every stride-th query of a sequence not dilated, blocks of queries
# meet blocks of `stride` times as many keys; at stride C a block is one query and its window is its own chunk.
#
# Shapes: as in the package; R residues, N blocks, b queries and h keys to a block, W keys to a window.


def by_banded_blocks(call: DilatedCall) -> Tensor:
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
    """Returns how many of n queries make a block: half a chunk. Fewer make small products, more make much waste."""
    return min(n, max(1, max(8, C // 2) // stride))


def _residues(x: Tensor, count: int, size: int, T: int, dilation: int, fill: Tensor | None) -> Tensor:
    """(B,H,S,d) to (B,H,R,count,size,d): the last columns by residue and block, `fill` before the first of them."""
    needed = count * size * dilation
    x = x[:, :, max(0, x.shape[2] - needed) :]
    x = on_left(x, needed - x.shape[2], fill).unflatten(2, (count, size, dilation))
    # With fewer queries than residues, the other residues have none.
    return x[..., max(0, dilation - T) :, :].movedim(4, 2)


# For few taps: the keys and values are copied once for each tap, shifted by it, so memory is C times T and never T
# times T.
#
# With two taps the softmax is the sigmoid of a difference, and one product does for two:
#
#     w[m] = sigmoid(q[m] · (k[m - D] - k[m]) / sqrt(d) + r[1] - r[0]),    y[m] = v[m] + w[m] (v[m - D] - v[m])
#
# Shapes: as in the package. A layer hands over (B,T,H,d) with two axes swapped in the shape but not in memory. Work
# costs twice as much where the operands differ in their order in memory, so all is done in that of the queries.


def by_shifted_copies(call: DilatedCall) -> Tensor:
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
    part = slice(first + lost * stride, S - lag, stride) if lost < T else slice(0, 0)
    return on_left(x[:, part] if axis == 1 else x[:, :, part], lost, fill, axis)


FEW, FEW_IN_CHUNKS = 7, 16
"""From this many taps on matrix products are faster; where queries share no key they have less to gain."""
LARGE, SLAB = 2**21, 2**20
"""On a CPU, temporaries of more than LARGE numbers cost more in fresh pages than in arithmetic; SLAB fits a cache."""


def by_torch(call: DilatedCall) -> Tensor:
    """As `oracle`."""
    q, stride = call.q, call.stride
    bias = _merged(call.bias, -(-call.k.shape[2] // call.dilation), call.pad is not None)
    if bias is not call.bias:
        call = replace(call, bias=bias)
    C, (B, H, T, d) = bias.shape[1], q.shape
    # Queries that are both strided and dilated fall into residues unevenly; no model asks for them.
    few = (FEW if stride == 1 else FEW_IN_CHUNKS) > C or (stride > 1 and call.dilation > 1)
    run = by_shifted_copies if few else by_banded_blocks

    width = d if few else max(2 * d, C + block_size(C, T, stride))
    rows = max(1, SLAB // (H * T * width))
    if B * H * T * width <= LARGE or rows >= B or q.device.type != "cpu" or torch.compiler.is_compiling():
        return run(call)
    # Cut and joined in their order in memory; in another order each would be copied across.
    turn = (lambda x: x.transpose(1, 2)) if q.stride(1) < q.stride(2) else (lambda x: x)
    parts = zip(*(turn(x).split(rows) for x in (q, call.k, call.v)), strict=True)
    positions = [None] * -(-B // rows) if call.positions is None else call.positions.split(rows)
    slabs = [
        turn(run(replace(call, q=turn(a), k=turn(b), v=turn(c), positions=p)))
        for (a, b, c), p in zip(parts, positions, strict=True)
    ]
    return turn(torch.cat(slabs))


def _merged(bias: Tensor, n: int, padded: bool) -> Tensor:
    """The bias of the taps that can meet one of n tokens, and one bias for all others: they meet the same pad, if any.

    A tap of bias r weighs exp(r) times what the pad's key weighs, so together they weigh as one of bias logsumexp(r).
    """
    if bias.shape[1] <= (n + 1 if padded else n):
        return bias
    if not padded:
        return bias[:, :n]
    return torch.cat([bias[:, :n], bias[:, n:].logsumexp(1, keepdim=True)], 1)
