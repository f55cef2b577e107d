"""Block scan against a work-efficient scan that composes transitions, forward and backward, 8 blocks of 8.

- composing: neighbours are composed, the half left is solved, the others are filled in; differentiated by torch;
- ours: compiled by numba where that is installed;
- torch's: the same by torch's operators, one by one or in chunks, by a rule that should choose a way not more than 20%
  slower than the other;
- Hillis and Steele's scan, which composes T log T times;
- the bound: A read twice and its gradient written, at the speed at which a copy goes in the same round.
Columns: ours in ms; how many times that composing takes (asked: at least); how many times the bound ours takes (at
most); how many times ours Hillis and Steele's takes; then torch's in ms, composing against that, and that against the
better of its two ways.
All are first compared with the oracle, then timed in turn, round by round; ratios are medians over rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import torch
from rich.table import Table
from torch import Tensor

from lengthwise.ops import block_scan
from lengthwise.ops.block_diagonal.autograd import by_torch
from lengthwise.ops.block_diagonal.call import ScanCall

from .sliding_dilated import in_turn

HEADS = WIDTH = 8
SETTINGS = [
    # B, T, times faster than composing, at most so many times the bound
    (128, 40, 5, None),
    (32, 500, 5, 5),
    (4, 4000, 2.5, None),
    (1, 100_000, 1.5, None),
]
HILLIS = 16_000
"""Hillis and Steele's scan keeps log T times A: beyond so many tokens in all it is left out."""


def composing(A: Tensor, v: Tensor) -> Tensor:
    """The states from zero, v and states (B,T,h,b,1)."""
    n = v.shape[1] // 2
    if n == 0:
        return v
    A_0, A_1, v_0, v_1 = A[:, : 2 * n : 2], A[:, 1::2], v[:, : 2 * n : 2], v[:, 1::2]
    second = composing(A_1 @ A_0, A_1 @ v_0 + v_1)
    rest = A[:, 2::2] @ second[:, : A[:, 2::2].shape[1]] + v[:, 2::2]
    first = torch.cat([v[:, :1], rest], 1)
    both = torch.stack([first[:, :n], second], 2).flatten(1, 2)
    return torch.cat([both, first[:, n:]], 1)


def ways(B: int, T: int, start: Tensor) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    chunks = math.isqrt(8 * T)
    found = {
        "ours": lambda A, v: block_scan(A, v)[0],
        "torch's": lambda A, v: block_scan(A, v, backend="torch")[0],
        "composing": lambda A, v: composing(A, v.unsqueeze(-1)).squeeze(-1),
        "one by one": lambda A, v: by_torch(ScanCall(A, v, start, None, None), 1),
        "in chunks": lambda A, v: by_torch(ScanCall(A, v, start, None, None), min(T, max(2, min(chunks, 512 // B)))),
    }
    if B * T <= HILLIS:
        found["hillis-steele"] = lambda A, v: block_scan(A, v, backend="hillis-steele")[0]
    return found


def inputs(B: int, T: int) -> tuple[list[Tensor], Tensor]:
    draw = torch.Generator().manual_seed(0)
    A = torch.randn(B, T, HEADS, WIDTH, WIDTH, generator=draw) * 0.2
    v, slope = (torch.randn(B, T, HEADS, WIDTH, generator=draw) for _ in range(2))
    return [A.requires_grad_(), v.requires_grad_()], slope


def gap(T: int) -> float:
    """The largest difference of any way from the oracle, values and gradients, as a share of the largest."""
    leaves, slope = inputs(1, T)
    y = block_scan(*leaves, backend="reference")[0]
    wanted = [y.detach(), *torch.autograd.grad(y, leaves, slope, materialize_grads=True)]
    worst = 0.0
    for way in ways(1, T, torch.zeros(1, HEADS, WIDTH)).values():
        y = way(*leaves)
        found = [y.detach(), *torch.autograd.grad(y, leaves, slope, materialize_grads=True)]
        worst = max([worst, *(float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, wanted, strict=True))])
    return worst


def table(threads: int) -> Table:
    title = f"Block scan, forward + backward, fp32, {HEADS} blocks of {WIDTH}, {threads} thread(s)"
    found = Table(title=title)
    names = ("B", "T", "ms", "composing", "asked", "bound", "at most", "h.-steele")
    for name in (*names, "torch's ms", "composing", "better way", "at most"):
        found.add_column(name)
    torch.set_num_threads(threads)
    for B, T, faster, slower in SETTINGS:
        (A, v), slope = inputs(B, T)
        named = ways(B, T, torch.zeros(B, HEADS, WIDTH))
        place = torch.empty_like(A)

        def run(way: Callable, A=A, v=v, slope=slope) -> Callable[[], object]:
            return lambda: torch.autograd.grad(way(A, v), [A, v], slope)

        given = A.detach()
        rounds = in_turn([*(run(way) for way in named.values()), partial(place.copy_, given)])
        mine, plain, theirs, loop, chunked, *other, copy = zip(*rounds, strict=True)
        bound = [1.5 * c for c in copy]  # a copy reads once and writes once
        better = [min(x) for x in zip(loop, chunked, strict=True)]
        found.add_row(
            f"{B:,}",
            f"{T:,}",
            f"{1e3 * median(mine):.1f}",
            _ratio(theirs, mine),
            f"{faster:g}",
            _ratio(mine, bound),
            "–" if slower is None else f"{slower:g}",
            _ratio(other[0], mine) if other else "–",
            f"{1e3 * median(plain):.1f}",
            _ratio(theirs, plain),
            _ratio(plain, better),
            "1.2",
        )
    return found


def _ratio(x: Sequence[float], y: Sequence[float]) -> str:
    return f"{median(a / b for a, b in zip(x, y, strict=True)):.2f}"


def tables() -> list[Table]:
    for T in (1, 2, 65, 500):
        if (off := gap(T)) > 1e-4:
            raise SystemExit(f"Block scan, T = {T}: off by {off:.0e} of the largest value.")
    return [table(threads) for threads in (1, 2)]
