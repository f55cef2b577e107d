"""Forgetting attention: softmax attention in which each token says how much of what lies before it is forgotten (FoX).

    f_t      = sigmoid(w · x_t + b),  one gate for each head
    logit_ts = q_t · k_s / sqrt(d) + log f_(s+1) + … + log f_t  =  q_t · k_s / sqrt(d) + c_t - c_s,    c = cumsum(log f)

Softmax ignores c_t, which is the same for all keys. So the gates are a bias by key, -c_s, and the state is that of
softmax attention with c beside each key. With a constant gate f = e^-m it is ALiBi of slope m. c falls by about 0.7 a
token at first: it is summed in fp64, and counted from the last key.

With `by_segment` a gate closes only where a segment begins, at the token after the separator (BiPE-FoX):

    log f_t  =  log sigmoid(w · x_t + b)  if t begins a segment,  else 0

Tokens of one segment, its separator among them, then read each other as without gates, and a constant gate is ALiBi
between segments, which is BiPE-ALiBi. If every token is a segment, all this is FoX again.

Shapes: B batch, T tokens, S keys, H heads, d head width, D model width.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import Error
from ..options import OptionsOf
from ..positions import Bias, KeyBias, Layout, Placed, added, begins_segment
from ..positions.absolute import INEXACT
from .attention import KeyValues
from .pro_block import OutputGate, TokenShift
from .softmax import Softmax


class Gates(nn.Module):
    """log f (B,H,T), never in half precision; the weights begin small, so that all gates begin alike."""

    def __init__(self, width: int, heads: int, bias: float):
        super().__init__()
        self.weight = nn.Parameter(0.02 * torch.randn(heads, width))
        self.bias = nn.Parameter(torch.full((heads,), float(bias)))

    def forward(self, x: Tensor) -> Tensor:
        opened = F.linear(x, self.weight, self.bias).mT
        return F.logsigmoid(opened.to(torch.promote_types(opened.dtype, torch.float32)))


def cumulated(log_f: Tensor, earlier: Tensor | None) -> Tensor:
    """(B,H,T) c, which goes on from that of the `earlier` tokens."""
    c = log_f.to(INEXACT.get(log_f.device.type, torch.float64)).cumsum(-1)
    return c if earlier is None else earlier[..., -1:] + c


class Forgetting(Softmax):
    """`biases` on the query, key, value and output maps; `dropout` on the attention weights while training."""

    def __init__(
        self,
        width: int,
        *,
        gate_bias: Annotated[
            float, "Gates are at first the sigmoid of this: 0 halves the weight of all before, 5 leaves 99%."
        ] = 0.0,
        by_segment: Annotated[
            bool, "Whether gates close only where a segment begins, which the position must know; else at every token."
        ] = False,
        pro: Annotated[
            bool, "Whether keys and values are shifted, all heads normalised and the output gated (pro_block.py)."
        ] = False,
        **shared: Annotated[Any, OptionsOf(Softmax, "heads biases dropout log_scale position")],
    ):
        super().__init__(width, qk_norm=pro, **shared)
        if pro:
            self.shift, self.gated = TokenShift(width, self.heads), OutputGate(width, self.heads)
        self.gates, self.by_segment = Gates(width, self.heads, gate_bias), by_segment
        self.traits = replace(self.traits, reads_segments=by_segment)

    def compared(
        self, x: Tensor, layout: Layout, state: KeyValues | None, placed: Placed | None
    ) -> tuple[Tensor, KeyValues, Bias | None]:
        q, seen, bias = super().compared(x, layout, state, placed)
        seen = seen.with_gates(self._cumulated(x, layout, placed, seen.gates))
        assert seen.gates is not None
        # What softmax ignores has no gradient, not even by rounding: no token may learn of a later one.
        return q, seen, added(bias, KeyBias(seen.gates[..., -1:].detach() - seen.gates))

    def _cumulated(self, x: Tensor, layout: Layout, placed: Placed | None, earlier: Tensor | None) -> Tensor:
        """(B,H,T) c of these tokens, which goes on from that of the `earlier` ones.

        It runs on over the sequences of a packed row: keys are compared with queries of their own sequence alone.
        """
        log_f = self.gates(x)
        if layout.real is not None:
            log_f = log_f.masked_fill(~layout.real[:, None], 0)
        if self.by_segment:
            if placed is None:
                raise Error(
                    "forgetting: by_segment needs the segments of the tokens, which a mixer by itself does not know. "
                    "Use it in a model with the position bilevel or multilevel, or give placed=Placed(None, places)."
                )
            log_f = log_f.masked_fill(~begins_segment(placed.places)[:, None], 0)
        return cumulated(log_f, earlier)
