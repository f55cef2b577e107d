"""Chain attention (ChaCAL) as a layer: one solve follows references of any length.

    Y = (1-γ) (I + γÃ + (γÃ)² + …) A V,     A = softmax(q_t · k_s / sqrt(d) + bias_ts) over s <= t

Ã is A without its diagonal (`exclude_diagonal`) or A itself. γ = 0 is softmax attention. Later tokens read these only
through z = (1-γ) v + γ y, so the state is that of softmax attention with z in the place of v.

Shapes: B batch, T tokens, S keys, H heads, d head width, D model width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from ..errors import Error, UnknownName
from ..ops.chain import HIDDEN, chain_attention, solved_values
from ..options import OptionsOf
from ..positions import KeyBias, Layout, Placed, Position
from .attention import AttentionMixer, KeyValues, own_position, queries_keys_values, rotated, scored
from .base import Traits

HIGHEST = 0.999
"""No learned γ passes it, so that no rounding makes it 1, where paths no longer fade."""


class Gamma(nn.Module):
    """γ in [0, 1): given, one for all heads or one each, or learned: γ = 0.999 σ(a), which starts at what is given."""

    def __init__(self, heads: int, gamma: float | Sequence[float], learned: bool):
        super().__init__()
        gammas = [gamma] * heads if isinstance(gamma, int | float) else list(gamma)
        if len(gammas) != heads:
            raise Error(f"chain: gamma is a number or one for each of the {heads} heads, got {len(gammas)}.")
        if not all(isinstance(g, int | float) and 0 <= g < 1 for g in gammas):
            raise Error(
                f"chain: gamma must be at least 0 and below 1, got {gamma}: at 1 the paths' weights no longer sum to a "
                "finite number. The paper's is 0.9."
            )
        if learned and not all(0 < g < HIGHEST for g in gammas):
            raise Error(
                f"chain: a learned gamma must start above 0 and below {HIGHEST}, got {gamma}: it is {HIGHEST} times a "
                "sigmoid, which nears these and never leaves them. Use 0.01 to start near softmax attention."
            )
        self.fixed = tuple(float(g) for g in gammas)
        self.logit = nn.Parameter((torch.tensor(self.fixed) / HIGHEST).logit()) if learned else None

    def forward(self, q: Tensor) -> float | Tensor:
        """A number, or (H,), for these queries (B,H,T,d); never in half precision, where 0.999 would be 1."""
        kind = torch.promote_types(q.dtype, torch.float32)
        if self.logit is not None:
            return HIGHEST * self.logit.to(kind).sigmoid()
        if len(set(self.fixed)) == 1:
            return self.fixed[0]
        return torch.tensor(self.fixed, dtype=kind, device=q.device)

    def extra_repr(self) -> str:
        values = ", ".join(f"{g:g}" for g in dict.fromkeys(self.fixed))
        return values if self.logit is None else f"learned from {values}"


def check_paths(paths: str) -> None:
    if paths not in ("mean", "sum"):
        raise UnknownName("paths of chain", paths, ("mean", "sum"))


def summed(y: Tensor, gamma: float | Tensor) -> Tensor:
    """Y / (1-γ), the sum over paths, of the mean Y."""
    return (y / (1 - (gamma.view(-1, 1, 1) if isinstance(gamma, Tensor) else gamma))).to(y.dtype)


class Chain(AttentionMixer):
    """`biases` on the query, key, value and output maps; `causal=False`: every token reads all, as in encoders.

    `paths`: "mean", the paper's Y, or "sum", Y / (1-γ). With γ = 0.9 the mean gives a reference one step away a tenth
    of the weight it has in softmax attention, and the layer gradients as much smaller: so it learns slowly at first.
    `gamma`: one number, or one a head: heads that start near 0 learn what softmax attention does, as fast.
    """

    name = "chain"
    traits = Traits(keeps_keys=True, takes_position=True)

    def __init__(
        self,
        width: int,
        *,
        gamma: Annotated[
            float | Sequence[float],
            "How much a reference passes on, at least 0 and below 1; a number, or one for each head.",
        ],
        learn_gamma: Annotated[bool, "Whether gamma is trained, from where it starts."] = False,
        exclude_diagonal: Annotated[bool, "Whether no token may refer to itself."],
        paths: Annotated[
            Literal["mean", "sum"], "How paths of all lengths are joined: their mean (the paper), or their sum."
        ],
        causal: Annotated[bool, "Whether a token reads those before it alone; otherwise all, as in encoders."] = True,
        position: Annotated[
            Position | None, "An encoding of the layer's own; None: the model's, handed over with each call."
        ] = None,
        **shared: Annotated[Any, OptionsOf(AttentionMixer, "heads biases")],
    ):
        super().__init__(width, **shared)
        check_paths(paths)
        self.exclude_diagonal, self.paths, self.causal = exclude_diagonal, paths, causal
        self.gamma = Gamma(self.heads, gamma, learn_gamma)
        self.position = position

    def forward(
        self, x: Tensor, *, layout: Layout, state: KeyValues | None = None, placed: Placed | None = None
    ) -> tuple[Tensor, KeyValues | None]:
        """The state's `v` is z; without causality there is none."""
        if x.shape[1] == 0:
            raise Error("chain: there must be at least one token, got T = 0.")
        if not self.causal:
            self._check_whole(layout, state)
        q, k, v = queries_keys_values(self.qkv(x), self.heads)
        acting = placed if self.position is None else own_position(self.position, placed, layout)
        bare, places, bias = q, None, None
        if acting is not None:
            q, k = rotated(q, k, acting)
            # Under autocast what a position turns may come out wider than the values.
            q, k, places = q.to(v.dtype), k.to(v.dtype), acting.places
        seen = KeyValues(k, v[:, :, :0], layout, places) if state is None else state.with_keys(k, layout, places)
        keys, gamma = seen.layout, self.gamma(q)
        if acting is not None:
            q, bias = scored(q, bare, seen.k, acting, seen.places)
        key_bias = None if keys.real is None else torch.where(keys.real, 0.0, HIDDEN)[:, None]
        if isinstance(bias, KeyBias):
            key_bias, bias = bias.values if key_bias is None else key_bias + bias.values, None
        y = chain_attention(
            q,
            seen.k,
            v,
            gamma,
            exclude_diagonal=self.exclude_diagonal,
            bias=None if bias is None else bias.dense(),
            key_bias=key_bias,
            sequences=keys.sequences,
            solved=seen.v,
            causal=self.causal,
        )
        state = seen.with_values(solved_values(v, y, gamma)) if self.causal else None
        if self.paths == "sum":
            y = summed(y, gamma)
        return self.out(y.transpose(1, 2).flatten(-2)), state

    def _check_whole(self, layout: Layout, state: KeyValues | None) -> None:
        """Without causality only whole sequences can be read, one a row."""
        if state is not None:
            raise Error(
                "chain: without causality every token reads those after it, so there is no state to go on from. "
                "Give the whole sequence at once, or causal=True."
            )
        if layout.sequences is not None:
            raise Error("chain: without causality rows cannot be packed. Pad the sequences instead, or causal=True.")
