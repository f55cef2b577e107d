"""Rotary positions: each pair of entries turns by an angle that grows with the token's place, so that q · k knows only
how far apart the two tokens are.

    R_t x = x cos(t w) + turned(x) sin(t w),    turned([a, b]) = [-b, a],    w_i = base^(-2i/d)

A model that was trained on N tokens reads texts `factor` times as long when its angles grow more slowly:

    interpolation:  w_i / factor
    yarn:           w_i where a pair turns at least 32 times in N tokens, w_i / factor where it turns less than once, a
                    mixture between; and cos and sin times 0.1 ln(factor) + 1, which sharpens the softmax

With `share` p < 1 the slowest pairs hold still, w_i = 0 for i >= n = p d/2 (p-RoPE): they compare content alone. With
`spread` the others have all speeds instead of the fastest alone, w_i = base^(-i/n) (partial RoPE, as in GPT-NeoX). With
a small base all of them then turn many times in the trained length, and none meets a new angle in longer texts: that is
how RoPE-ID (Wertheimer et al. 2026) goes about it, whose own base and share are not settled here.

XPOS also lets far tokens fade: queries times z^(t/512), keys times z^(-t/512), z_i = (2i + 0.4 d) / (1.4 d).

`accumulated` rotations are chosen by the text: every token turns the pairs by angles of its own, so that one token is
turned against another by the sum of those between, which is a prefix sum less another.

    turn(t, s) = sum_{s < u <= t} (w + a[token_u]),    a = 0 at first, which is RoPE

What no rotation can do, these or others. Let |q| |k| / sqrt(d) <= m for all tokens. Rotations keep lengths, so every
logit lies in [-m, m], and of w near tokens and n far ones the far ones weigh

    at least n e^-m / (n e^-m + w e^m) = 1 / (1 + e^2m w / n) -> 1 as n grows,

whatever the angles. Under ALiBi's slope a the logit of the token j before lies in [-m - a j, m - a j]. The far ones, of
which j >= w, so sum up to less than e^m e^-aw / (1 - e^-a), a geometric row without end, and the near ones to at least
e^-m (1 - e^-aw) / (1 - e^-a): the far ones weigh

    at most 1 / (1 + e^-2m (e^(a w) - 1)),    however many they are.

Shapes: B batch, T tokens, H heads, d head width.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import Error
from ..options import above, at_least
from .absolute import INEXACT
from .base import Places, Position
from .layout import Layout

FAST, SLOW = 32, 1
"""YaRN's two bounds: how often a pair must turn in the trained length to stay as it is, and to be interpolated."""


class Rope(Position):
    at_attention = takes_fractions = True

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        base: Annotated[
            float, above(1), "The slowest pair turns once in about 2 pi times this many tokens."
        ] = 10_000.0,
        scaling: Annotated[
            Literal["none", "interpolation", "yarn"], "How the angles are slowed down for longer texts than trained on."
        ] = "none",
        factor: Annotated[float, at_least(1), "How many times longer the texts become, with a scaling."] = 1.0,
        trained: Annotated[
            int | None, at_least(1), "How many tokens the model was trained on, which YaRN has to know."
        ] = None,
        share: Annotated[
            float, at_least(0, at_most=1), "The share of the pairs that turn, the fastest ones; the others hold still."
        ] = 1.0,
        spread: Annotated[
            bool, "Whether the pairs that turn have all speeds down to the slowest; else they are the fastest of all."
        ] = False,
    ):
        super().__init__()
        self.d = width // heads
        if self.d % 2:
            raise Error(
                f"RoPE: a head's width must be even (entries turn in pairs), got {self.d}. Change width or heads."
            )
        if scaling == "none" and factor != 1:
            raise Error(f'RoPE: factor {factor:g} needs a scaling. Say scaling="yarn" or "interpolation".')
        if scaling == "yarn" and trained is None:
            raise Error("RoPE: YaRN needs trained, the number of tokens that the model was trained on.")
        self.base, self.scaling, self.factor, self.trained = base, scaling, factor, trained
        self.share, self.spread = share, spread

    def frequencies(self, ids: Tensor) -> Tensor:
        """(d/2,) the angles by which the pairs turn from one place to the next, on the device of the ids."""
        i = torch.arange(self.d // 2, dtype=INEXACT.get(ids.device.type, torch.float64), device=ids.device)
        w = self.base ** (-2 * i / self.d)
        turning = round(self.share * len(i))
        if self.spread and turning:
            w = self.base ** (-i / turning)
        w = w.where(i < turning, 0.0)
        if self.scaling == "interpolation":
            return w / self.factor
        if self.scaling == "yarn":
            low, high = max(math.floor(self._pair(FAST)), 0), min(math.ceil(self._pair(SLOW)), self.d - 1)
            slowed = ((i - low) / max(high - low, 1e-3)).clamp(0, 1)
            return w * (1 - slowed) + w / self.factor * slowed
        return w

    def _pair(self, turns: int) -> float:
        """The number of the pair, a fraction, that turns so often in the trained length."""
        assert self.trained is not None
        return self.d * math.log(self.trained / (turns * 2 * math.pi)) / (2 * math.log(self.base))

    def rotate(self, x: Tensor, places: Places) -> Tensor:
        cos, sin = places.once((self, x.dtype), lambda: self._turns(places["token"], x.dtype))
        return turned(x, cos, sin)

    def _turns(self, ids: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """cos and sin (B,1,T,d/2) of the angles: of all layers, and of queries and keys alike."""
        angle = (ids[..., None].to(INEXACT.get(ids.device.type, torch.float64)) * self.frequencies(ids))[:, None]
        sharper = 0.1 * math.log(self.factor) + 1 if self.scaling == "yarn" else 1.0
        return (angle.cos() * sharper).to(dtype), (angle.sin() * sharper).to(dtype)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Returns `x` (B,H,T,d) with its pairs turned, by angles (B,1,T,d/2) of which these are cosine and sine."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Angles(NamedTuple):
    """The state: how far the last token stands turned."""

    croppable = False
    last: Tensor
    """(B,d/2)"""

    def select(self, rows: Tensor) -> Angles:
        return Angles(self.last[rows])


class Accumulated(Rope):
    """RoPE whose angles the tokens choose: each turns all that comes after it."""

    takes_fractions = False

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        rows: Annotated[int, at_least(1), "How many tokens have angles of their own; all ids beyond share the last."],
        base: Annotated[
            float, above(1), "The slowest pair turns once in about 2 pi times this many tokens, before it has learned."
        ] = 10_000.0,
    ):
        super().__init__(width, heads, base=base)
        self.a = nn.Parameter(torch.zeros(rows, self.d // 2))

    def place(self, tokens: Tensor | None, layout: Layout, state: Angles | None = None) -> tuple[Places, Angles]:
        """The angles are weights, and are summed up in fp64, for all layers once."""
        if tokens is None:
            raise Error("accumulated: the angles depend on the tokens, which a mixer alone does not know. Use a model.")
        w = self.frequencies(tokens)
        step = w + self.a[tokens.clamp(max=len(self.a) - 1)].to(w.dtype)
        total, columns = step.cumsum(1), torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        begin = torch.where(layout.positions == 0, columns, -1).cummax(1).values[..., None]
        before = (total - step).gather(1, begin.clamp(min=0).expand_as(total))
        earlier = total.new_zeros(()) if state is None else state.last[:, None]
        angle = total - torch.where(begin >= 0, before, -earlier)
        return Places(layout.positions, angle=angle), Angles(angle[:, -1])

    def rotate(self, x: Tensor, places: Places) -> Tensor:
        angle = places["angle"][:, None]
        return turned(x, angle.cos().to(x.dtype), angle.sin().to(x.dtype))


class Xpos(Rope):
    """RoPE whose logits fade with the distance. Powers of z leave fp32's range beyond some 35,000 tokens."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        base: Annotated[
            float, above(1), "The slowest pair turns once in about 2 pi times this many tokens."
        ] = 10_000.0,
        fading: Annotated[float, above(0), "In how many tokens a pair fades by its factor."] = 512.0,
    ):
        super().__init__(width, heads, base=base)
        self.fading = fading

    def _faded(self, x: Tensor, places: Places, sign: int) -> Tensor:
        ids = places["token"]
        i = torch.arange(self.d // 2, dtype=INEXACT.get(ids.device.type, torch.float64), device=ids.device)
        z = (2 * i + 0.4 * self.d) / (1.4 * self.d)
        power = (z ** (sign * ids[:, None, :, None] / self.fading)).to(x.dtype)
        return super().rotate(x, places) * torch.cat([power, power], -1)

    def rotate_queries(self, q: Tensor, places: Places) -> Tensor:
        return self._faded(q, places, 1)

    def rotate(self, x: Tensor, places: Places) -> Tensor:
        return self._faded(x, places, -1)
