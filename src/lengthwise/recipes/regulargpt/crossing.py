"""The worked example of §3.4: at T = 512 and C = 128, how many layers K of RegularGPT cost what L of a Transformer do?

    the paper:      T C K log_C T < T² L        K / L < T / (C log_C T) = 3.11
    whole groups:   log_C T is rounded up       K / L < T / (C ceil(log_C T)) = 2
    pairs:          of the keys that exist      K / L < P_full / (P_0 + P_1)
    layers:         with 24 D² a token for the maps around every attention

P_full = T (T+1) / 2, and P_l counts the taps at level l that fall inside the text.
Measured: seconds of the one over seconds of the other, where the two groups are levels 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import Error
from ...mixers import Layout, Level
from ...mixers.sliding_dilated import SlidingDilated
from ...mixers.softmax import Softmax
from ...models.config import Block
from ...models.depth import groups
from ...models.layers import Layer
from ...ops import sliding_dilated_attention
from ...report import Panel, text_table
from .masked import attention
from .timing import in_turn

T, C = 512, 128
LEVELS = range(groups(T, C))


def pairs(length: int, chunk: int, level: int) -> int:
    """Query and key pairs of sliding-dilated attention that fall inside a text.

    >>> [pairs(512, 128, level) for level in (0, 1)], pairs(4, 4, 0)
    ([57408, 1280], 10)
    """
    return sum(min(chunk, m // chunk**level + 1) for m in range(length))


def counted(D: int) -> dict[str, float]:
    """K / L by each way of counting."""
    full, sparse = T * (T + 1) / 2, sum(pairs(T, C, level) for level in LEVELS)
    maps = 24 * D**2 * T
    return {
        "counted by the paper": T / (C * math.log(T, C)),
        "counted, whole groups": T / (C * len(LEVELS)),
        "counted, pairs that exist": full / sparse,
        "counted, whole layers": (maps + 4 * D * full) / (len(LEVELS) * maps + 4 * D * sparse),
    }


def crossing(widths: Sequence[tuple[int, int]], repeats: int) -> list[Panel]:
    """The table of K / L, counted and measured, for each (width, heads)."""
    columns = [{**counted(D), **measured(D, heads, repeats)} for D, heads in widths]
    names = list(columns[0])
    rows = [[name, *(f"{column[name]:.2f}" for column in columns)] for name in names]
    caption = (
        "K / L up to which K layers a group of RegularGPT cost no more than L of a causal Transformer, at "
        f"{T} tokens and C = {C}. The paper's 3.11 counts C keys a query in log_C T = {math.log(T, C):.2f} groups "
        f"against T keys; but there are {len(LEVELS)} groups, a causal query has T / 2 keys on average, and level 1 "
        f"finds no more than {T // C}. Neither counts the maps around the attention, which every layer has and which, "
        "at this length, are most of it: with them the crossing comes near one layer for one group, 1/2. What is left "
        "between counted and measured is how many operations a second each kernel does."
    )
    heads = ["", *(f"width {D}, {heads} heads" for D, heads in widths)]
    data = {f"width {D}": column for (D, _), column in zip(widths, columns, strict=True)}
    return [text_table("The crossing: K < 3.11 L?", caption, heads, rows, data)]


def measured(D: int, heads: int, repeats: int) -> dict[str, float]:
    """K / L by the clock: of the attention alone, and of whole layers."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, heads, T, D // heads, generator=draw).to(device).requires_grad_() for _ in range(3))
    r = torch.randn(heads, C, generator=draw).to(device).requires_grad_()

    def sparse(level: int) -> Tensor:
        return sliding_dilated_attention(q, k, v, r, chunk=C, level=level)

    for level in LEVELS:
        if not torch.allclose(sparse(level), attention(q, k, v, r, level), rtol=1e-3, atol=1e-4):
            raise Error(f"crossing: the sparse and the dense form disagree at level {level}. Nothing is timed.")
    alone: dict[str, Callable[[], Tensor]] = {f"level {level}": lambda l=level: sparse(l) for level in LEVELS}
    alone["full"] = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)

    x = torch.randn(1, T, D, generator=draw).to(device)
    layout = Layout.of(x)
    small, full = (
        Layer(D, mixer, Block(norm="post"), 0.0).to(device)
        for mixer in (SlidingDilated(D, heads=heads, chunk=C, missing="drop"), Softmax(D, heads=heads))
    )
    layers: dict[str, Callable[[], Tensor]] = {
        f"level {level}": lambda l=level: small(x, layout, Level(l)) for level in LEVELS
    }
    layers["full"] = lambda: full(x, layout)
    found: dict[str, float] = {}
    for what, calls in (("attention alone", alone), ("whole layers", layers)):
        found[f"measured, {what}, forward"] = ratio({name: _ahead(call) for name, call in calls.items()}, repeats)
        found[f"measured, {what}, both ways"] = ratio({name: _both(call) for name, call in calls.items()}, repeats)
    return found


def ratio(calls: dict[str, Callable[[], Any]], repeats: int) -> float:
    """Seconds of "full" over those of all the others together."""
    times = in_turn(calls, repeats)
    return times.pop("full") / sum(times.values())


def _ahead(call: Callable[[], Tensor]) -> Callable[[], None]:
    def run() -> None:
        with torch.no_grad():
            call()

    return run


def _both(call: Callable[[], Tensor]) -> Callable[[], None]:
    return lambda: call().sum().backward()
