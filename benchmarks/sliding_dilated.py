"""Sliding-dilated attention against torch's fused attention under the dense mask of eq. (1), forward and backward.

Two rivals get the same queries, keys, values and a mask built beforehand, bias and -inf in it:
- learned: the mask asks for its gradient, as r does when it is trained; torch then takes its unfused form;
- fixed: it does not, and is given as (1,H,T,T), which on the CPU is what the fused kernel takes. The best torch has,
  but it trains no r.
Each setting is first compared with the oracle, values and gradients. Then all are timed in turn, round by round; the
ratios are medians over the rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

import torch
import torch.nn.functional as F
from rich.table import Table
from torch import Tensor

from lengthwise.ops import sliding_dilated_attention

THREADS, ROUNDS, TURN = 2, 3, 0.2
SETTINGS = [
    # chunk, level, T, B, H, d, and how many times faster is promised
    (2, 6, 2048, 8, 8, 8, 40),
    (2, 6, 2048, 4, 8, 64, 40),
    (2, 3, 40, 128, 8, 8, 1.5),
    (2, 3, 40, 32, 8, 64, 1.5),
    (128, 0, 2048, 2, 8, 64, 2),
    (128, 1, 2048, 2, 8, 64, 2),
    (128, 0, 2048, 4, 8, 8, 2),
]


def dense_mask(r: Tensor, dilation: int, T: int) -> Tensor:
    """(H,T,T): r of the tap, or -inf where a key is none of the query's."""
    m = torch.arange(T)
    lag = m[:, None] - m
    j = lag // dilation
    tap = (lag % dilation == 0) & (j >= 0) & (j < r.shape[1])
    return r[:, j.clamp(0, r.shape[1] - 1)].masked_fill(~tap, -torch.inf)


def gap(chunk: int, level: int, qkv: Sequence[Tensor], r: Tensor) -> float:
    """The largest difference from the oracle, of the first row's values and gradients, as a share of the largest."""
    q, k, v = (x[:1].detach().requires_grad_() for x in qkv)
    weight = torch.randn(q.shape, generator=torch.Generator().manual_seed(1))
    found, wanted = [], []
    for backend, out in (("torch", found), ("reference", wanted)):
        y = sliding_dilated_attention(q, k, v, r, chunk=chunk, level=level, backend=backend)
        out += [y.detach(), *torch.autograd.grad(y, [q, k, v, r], weight)]
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, wanted, strict=True))


def in_turn(runs: Sequence[Callable[[], object]]) -> list[list[float]]:
    """Seconds of each run in each round. A turn is one call untimed, then calls for TURN seconds, of which the median:
    as in training, where a step follows a step of its own kind and finds the memory that this one gave back.
    """
    seconds = []
    for _ in range(ROUNDS):
        turns = []
        for run in runs:
            run()
            calls = []
            while sum(calls) < TURN:
                start = time.perf_counter()
                run()
                calls.append(time.perf_counter() - start)
            turns.append(median(calls))
        seconds.append(turns)
    return seconds


def row(chunk: int, level: int, T: int, B: int, H: int, d: int, bound: float) -> tuple[str, ...]:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(B, H, T, d, generator=generator, requires_grad=True) for _ in range(3))
    r = torch.randn(H, chunk, generator=generator, requires_grad=True)
    slope = torch.randn(B, H, T, d, generator=generator)
    off = gap(chunk, level, [q, k, v], r)
    if off > 1e-4:
        raise SystemExit(f"C = {chunk}, level {level}, T = {T}: off by {off:.0e} of the largest value.")

    fixed = dense_mask(r.detach(), chunk**level, T)
    learned = fixed.clone().requires_grad_()

    def ours() -> object:
        y = sliding_dilated_attention(q, k, v, r, chunk=chunk, level=level)
        return torch.autograd.grad(y, [q, k, v, r], slope)

    def with_learned() -> object:
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=learned)
        return torch.autograd.grad(y, [q, k, v, learned], slope)

    def with_fixed() -> object:
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=fixed[None])
        return torch.autograd.grad(y, [q, k, v], slope)

    seconds = in_turn([ours, with_learned, with_fixed])
    mine, by_learned, by_fixed = (
        median(s[0] for s in seconds),
        median(s[1] / s[0] for s in seconds),
        median(s[2] / s[0] for s in seconds),
    )
    return (
        *(str(x) for x in (chunk, level, T, f"{B}x{H}x{d}")),
        f"{1000 * mine:.2f}",
        f"{by_learned:.1f}",
        f"{by_fixed:.1f}",
        f"{bound}",
        f"{off:.0e}",
    )


def table() -> Table:
    """One row a setting; a ratio above 1 means that ours is faster."""
    torch.set_num_threads(THREADS)
    found = Table(title=f"Sliding-dilated attention: dense masked / ours, forward + backward, fp32, {THREADS} threads")
    for column in ("C", "level", "T", "BxHxd", "ours, ms", "mask learned", "mask fixed", "at least", "largest gap"):
        found.add_column(column)
    for setting in SETTINGS:
        found.add_row(*row(*setting))
    return found
