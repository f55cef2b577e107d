"""A stack of automata as numbers with bounds: which functions a token chooses, and what a state is read as.

    A layer:    F = columns' argmax of M(norm(x)),   s <- F(s),   y = C x_s + c   or   x_s,   x <- x + y   or   y
    x_s:        entry i of the block's x_0 lies where s has moved it; entries that meet are summed

Every number here is a middle in float64 and a radius such that a float32 evaluation, in any order of summation, lies
within it of the middle (enclosures.py says what is assumed of roundings). Mean and variance of a norm are such sums, by
whatever formula: two passes, Welford's, or E x² - μ².

Shapes: N states or tokens, D model width, h blocks, b width of a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import Error
from ...mixers import BlockLRNN
from ...models import LengthwiseForCausalLM
from ...models.depth import Fixed
from .enclosures import FLOAT32, LARGEST, LEAST, ROOT_ULPS, gamma, upper

U = FLOAT32.u


@dataclass(frozen=True)
class Bounded:
    mid: Tensor
    rad: Tensor

    def __add__(self, other: Bounded) -> Bounded:
        mid, rad = self.mid + other.mid, self.rad + other.rad
        return Bounded(mid, upper(rad + 2 * U * (mid.abs() + rad), mid.abs()))

    def rows(self, index: Tensor) -> Bounded:
        return Bounded(self.mid[index], self.rad[index])


@dataclass(frozen=True)
class Map:
    """W x + c"""

    W: Tensor
    c: Tensor

    @classmethod
    def of(cls, linear: nn.Linear) -> Map:
        W = _exact(linear.weight)
        return cls(W, W.new_zeros(len(W)) if linear.bias is None else _exact(linear.bias))

    def __call__(self, x: Bounded) -> Bounded:
        size = self.W.abs()
        total = (x.mid.abs() + x.rad) @ size.T + self.c.abs()
        rad = upper(x.rad @ size.T + gamma(self.W.shape[1] + 2, U) * total, total)
        if not self.c.any():  # a row of W is taken over as it stands
            one = (x.rad == 0).all(-1) & ((x.mid == 0) | (x.mid == 1)).all(-1) & (x.mid.sum(-1) <= 1)
            rad = torch.where(one[:, None], 0.0, rad)
        return Bounded(x.mid @ self.W.T + self.c, rad)


@dataclass(frozen=True)
class Norm:
    """(x - μ) / sqrt(σ² + ε) * g + β"""

    g: Tensor
    beta: Tensor
    eps: float

    def __call__(self, x: Bounded) -> Bounded:
        D, r = x.mid.shape[-1], x.rad
        mean = x.mid.mean(-1, keepdim=True)
        centred = x.mid - mean
        off = r.mean(-1, keepdim=True)
        spread = centred.square().mean(-1, keepdim=True)
        largest = x.mid.abs() + r
        unsure = (2 * centred.abs() * (r + off) + (r + off).square()).mean(-1, keepdim=True)
        unsure = upper(unsure + 4 * gamma(2 * D + 8, U) * largest.square().mean(-1, keepdim=True))
        low = spread - unsure + self.eps
        few, scale, many = (
            (1 / v.sqrt()) for v in (spread + unsure + self.eps, spread + self.eps, low.clamp(min=LEAST))
        )
        many = torch.where(spread > unsure, many, torch.inf)  # else a variance might come out below 0
        off_mean = off + gamma(D + 4, U) * largest.mean(-1, keepdim=True)
        rounding = (8 + ROOT_ULPS) * U * (largest + largest.mean(-1, keepdim=True)) * many
        inside = (r + off_mean) * many + centred.abs() * torch.maximum(many - scale, scale - few) + rounding
        inside = inside * self.g.abs() + 4 * U * self.beta.abs()
        return Bounded(centred * scale * self.g + self.beta, upper(inside, largest * many))

    @classmethod
    def of(cls, norm: nn.Module) -> Norm | None:
        if isinstance(norm, nn.Identity):
            return None
        if not isinstance(norm, nn.LayerNorm):
            raise Error(f"cascade: only layer norm is bounded here, got {type(norm).__name__}.")
        return cls(_exact(norm.weight), _exact(norm.bias), norm.eps)


def relu(x: Bounded) -> Bounded:
    return Bounded(x.mid.clamp(min=0), x.rad)


@dataclass(frozen=True)
class Automaton:
    """One layer. Its state is where each entry of x_0 that is not 0 lies in its block: (n,) places 0..b-1."""

    norm: Norm | None
    transition: tuple[Map, ...]
    one_hot: bool
    """Whether columns are made one-hot; otherwise they must be so as they come."""
    initial: Tensor
    """(h,b) x_0"""
    readout: Map | None
    residual: bool

    @property
    def entries(self) -> tuple[np.ndarray, np.ndarray]:
        """(n,) the block, and (n,) the place in it, of every entry of x_0 that is not 0."""
        block, place = np.nonzero(self.initial.numpy())
        return block, place.astype(np.uint8)

    def functions(self, x: Bounded) -> tuple[np.ndarray, np.ndarray]:
        """(N,h,b) where each place of each block goes, and by how much more than rounding that is decided."""
        x = x if self.norm is None else self.norm(x)
        for i, map in enumerate(self.transition):
            x = map(relu(x) if i else x)
        (h, b), N = self.initial.shape, len(x.mid)
        mid, rad = x.mid.view(N, h, b, b), x.rad.view(N, h, b, b)
        to = mid.argmax(2, keepdim=True)
        if self.one_hot:
            own = torch.zeros_like(mid, dtype=torch.bool).scatter_(2, to, True)
            low = (mid - rad).gather(2, to).squeeze(2)
            other = (mid + rad).masked_fill(own, -torch.inf).amax(2)
            gap = low - other if b > 1 else torch.ones_like(low)
        else:  # nothing but a 1 and zeros, to the last bit
            plain = ((rad == 0) & ((mid == 0) | (mid == 1))).all(2) & (mid.sum(2) == 1)
            gap = torch.where(plain, 1.0, -torch.inf)
        gap = torch.nan_to_num(gap, nan=-torch.inf)
        return to.squeeze(2).to(torch.uint8).numpy(), gap.numpy()

    def read(self, places: np.ndarray) -> Bounded:
        """y of states (N,n)."""
        h, b = self.initial.shape
        block, at = self.entries
        value = self.initial.numpy()[block, at]
        flat = block * b + places.astype(np.int64)
        rows = np.arange(len(places))[:, None]
        mid, size, met = np.zeros((3, len(places), h * b))
        for total, x in ((mid, value), (size, np.abs(value)), (met, np.ones_like(value))):
            np.add.at(total, (np.broadcast_to(rows, flat.shape), flat), np.broadcast_to(x, flat.shape))
        rad = np.where(met > 1, gamma(b, U) * size * (1 + 1e-6) + LEAST, 0.0)
        y = Bounded(torch.from_numpy(mid), torch.from_numpy(rad))
        return y if self.readout is None else self.readout(y)


@dataclass(frozen=True)
class CascadeNetwork:
    embedding: Tensor
    """(V,D), scaled."""
    layers: tuple[Automaton, ...]
    norm: Norm | None
    head: tuple[Map, ...]

    @property
    def outputs(self) -> int:
        return len(self.head[-1].W)

    @property
    def reads_state_alone(self) -> bool:
        """Whether an answer depends on the last layer's state alone, and not on the token beside it."""
        return not self.layers[-1].residual

    def before(self, layer: int, symbols: np.ndarray, states: list[np.ndarray]) -> Bounded:
        """What a layer is given for these tokens (N,) if the earlier layers are then in these states, each (N,n)."""
        x = Bounded(
            self.embedding[torch.from_numpy(symbols)], torch.zeros(len(symbols), self.embedding.shape[1]).double()
        )
        for automaton, places in zip(self.layers[:layer], states, strict=True):
            y = automaton.read(places)
            x = x + y if automaton.residual else y
        return x

    def logits(self, x: Bounded) -> Bounded:
        x = x if self.norm is None else self.norm(x)
        for i, map in enumerate(self.head):
            x = map(relu(x) if i else x)
        return x


def network_of(model: nn.Module) -> CascadeNetwork | str:
    """The model as a stack of automata, or why it is none."""
    inner: Any = getattr(model, "inner", model)
    if not isinstance(inner, LengthwiseForCausalLM) or not isinstance(inner.depth, Fixed):
        return "it is no stack of layers of this library"
    config = inner.config
    if not all(isinstance(layer.mixer, BlockLRNN) for layer in inner.depth.layers):
        return "its layers are no block-diagonal linear RNNs"
    if (config.position or {}).get("name") not in (None, "none"):
        return "it adds positions to its tokens"
    if any(layer.feeds for layer in inner.depth.layers):
        return "its layers have feed-forward networks"
    if any(p.dtype != torch.float32 for p in inner.parameters()):
        return "its weights are not float32"
    if config.embedding_scale != 1:
        return "its embeddings are scaled"
    layers = []
    for layer in inner.depth.layers:
        made = _automaton(layer)
        if isinstance(made, str):
            return made
        layers.append(made)
    head = (inner.head,) if inner.hidden is None else (inner.hidden, inner.head)
    if any(not bool(p.abs().max() < LARGEST) for p in inner.parameters()):
        return "a weight is not finite, or near the largest float32"
    return CascadeNetwork(
        _exact(inner.embedding.weight), tuple(layers), Norm.of(inner.norm), tuple(Map.of(map) for map in head)
    )


def _automaton(layer: Any) -> Automaton | str:
    mixer = layer.mixer
    if mixer.inputs is not None and any(bool(p.any()) for p in mixer.inputs.parameters()):
        return "its tokens add to the state (inputs are not none)"
    kind = getattr(mixer.bound, "__name__", getattr(getattr(mixer.bound, "func", None), "__name__", ""))
    if kind not in ("choice", "shortened", "_unchanged"):
        return "its transitions are not one-hot"
    transition = [mixer.transition] if isinstance(mixer.transition, nn.Linear) else list(mixer.transition)
    initial = torch.zeros(mixer.shape) if mixer.initial is None else mixer.initial
    return Automaton(
        Norm.of(layer.mixer_norm),
        tuple(Map.of(map) for map in transition if isinstance(map, nn.Linear)),
        kind == "choice",
        _exact(initial),
        None if isinstance(mixer.readout, nn.Identity) else Map.of(mixer.readout),
        layer.residual,
    )


def _exact(x: Tensor) -> Tensor:
    return x.detach().cpu().double()
