"""One group of RegularGPT as a function of what it combines: its taps, the own one last.

    h = norm(x + attention(x, taps)),   node = norm(h + W2 act(W1 h))         post-norm; pre-norm as in models/layers.py
    logits = head(norm(node))

The tree of a word applies it and nothing else. A leaf is an embedded token. A node of the first group reads leaves, one
of a later group reads nodes, and where a tap would stand before the first token it reads the learned pad, or there is
none.

It is written over tensors of any precision, with gradients. What the model's own arithmetic makes of whole sets is for
the checker to say.

Shapes: N tuples of taps, C chunk, H heads, D model width, S outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import Error
from ...mixers.sliding_dilated import SlidingDilated
from ...models import LengthwiseForCausalLM
from ...models.depth import Adaptive
from ...models.layers import Layer
from ...models.snapped_nodes import SnappedLayer


@dataclass(frozen=True)
class Plain:
    """A tensor with the operations that nodes and cells are made of."""

    x: Tensor

    def linear(self, W: Tensor, b: Tensor | None = None) -> Plain:
        return Plain(F.linear(self.x, W, b))

    def __add__(self, other: Plain) -> Plain:
        return Plain(self.x + other.x)

    def __mul__(self, other: Plain) -> Plain:
        return Plain(self.x * other.x)

    def smooth(self, name: str) -> Plain:
        return Plain({"gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}[name](self.x))

    def relu(self) -> Plain:
        return Plain(F.relu(self.x))

    def norm(self, weight: Tensor, bias: Tensor | None, eps: float, centred: bool) -> Plain:
        D = self.x.shape[-1:]
        return Plain(F.layer_norm(self.x, D, weight, bias, eps) if centred else F.rms_norm(self.x, D, weight, eps))

    def heads(self, count: int) -> Plain:
        return Plain(self.x.unflatten(-1, (count, -1)))

    def merged(self) -> Plain:
        return Plain(self.x.flatten(-2))

    def entries(self, part: slice) -> Plain:
        return Plain(self.x[..., part])

    def expand(self, count: int) -> Plain:
        return Plain(self.x.expand(count, *self.x.shape[1:]))

    def __len__(self) -> int:
        return len(self.x)


def _attend(q: Plain, k: list[Plain], v: list[Plain], r: Tensor, scale: float) -> Plain:
    logits = torch.stack([(q.x * each.x).sum(-1) * scale + r[:, j] for j, each in enumerate(k)])
    weights = logits.softmax(0)[..., None]
    return Plain(sum((w * each.x for w, each in zip(weights, v, strict=True)), torch.zeros_like(v[0].x)))


def refusal(model: nn.Module, *, snapped: bool = False, discrete: bool = False) -> str | None:
    """Why this model is no tree of one node function; None where it is.

    `snapped`: but for snapping its nodes; `discrete`: but for choosing their codes.
    """
    inner = inner_of(model)
    if inner is None or not isinstance(inner.depth, Adaptive):
        return "the model is no RegularGPT, whose groups are one function of their chunk"
    layers = inner.depth.layers
    if len(layers) != 1 or not isinstance(layers[0].mixer, SlidingDilated):
        return "a group has several layers, or another mixer than sliding-dilated attention: no function of its taps"
    if isinstance(layers[0], SnappedLayer) and not snapped:
        return "its nodes are snapped to centres, which the node function alone does not say"
    if layers[0].nodes is not None and not discrete:
        return "its nodes are discrete, which the node function alone does not say"
    if inner.depth.pad_tokens:
        return "the model's pads pass its layers like tokens (missing='official'), which no node function describes"
    if not layers[0].feeds or inner.position.at_input or inner.places_for_mixers:
        return "the model's layer is no transformer block without positions"
    parts = [layers[0].mixer.qkv, layers[0].mixer.out, layers[0].up, layers[0].down, inner.head]
    if any(type(part) is not nn.Linear for part in parts):
        return "a part of the model was replaced by something that is no plain linear map"
    if inner.training and inner.config.dropout:
        return "dropout draws: call eval() first"
    return None


def inner_of(model: nn.Module) -> LengthwiseForCausalLM | None:
    inner = getattr(model, "inner", model)
    return inner if isinstance(inner, LengthwiseForCausalLM) else None


class Node:
    """The node function of a model, with its leaves, its pad and its head."""

    def __init__(self, model: nn.Module, *, snapped: bool = False, discrete: bool = False):
        if reason := refusal(model, snapped=snapped, discrete=discrete):
            raise Error(f"node: {reason}. A preset regular-gpt with thickness 1 and one chunk has one.")
        self.model: LengthwiseForCausalLM = inner_of(model)  # pyright: ignore[reportAttributeAccessIssue]
        layer = self.model.depth.layers[0]
        self.layer: Layer = layer  # pyright: ignore[reportAttributeAccessIssue]
        self.mixer: SlidingDilated = layer.mixer  # pyright: ignore[reportAttributeAccessIssue]
        self.chunk: int = self.mixer.chunk
        self.width: int = self.model.config.width
        outputs = getattr(model, "num_outputs", None)
        self.outputs = slice(0, self.model.head.weight.shape[0] if outputs is None else outputs)
        self.pads = self.mixer.padded

    def _w(self, weight: Tensor | None, like: Plain) -> Tensor | None:
        """A weight in the precision of `like`."""
        return None if weight is None else weight.to(like.x.dtype)

    def _linear(self, x: Plain, linear: nn.Linear, rows: slice = slice(None)) -> Plain:
        W, b = self._w(linear.weight, x), self._w(linear.bias, x)
        return x.linear(W[rows], None if b is None else b[rows])  # pyright: ignore[reportOptionalSubscript]

    def _norm(self, x: Plain, norm: nn.Module) -> Plain:
        if isinstance(norm, nn.Identity):
            return x
        weight = self._w(norm.weight, x)  # pyright: ignore[reportArgumentType]
        bias = self._w(getattr(norm, "bias", None), x)
        return x.norm(weight, bias, norm.eps, isinstance(norm, nn.LayerNorm))

    def attended(self, taps: Sequence[Plain]) -> tuple[Plain, Plain]:
        """Of its present taps, oldest first, the own one last, what stands beside the feed-forward and what it reads.

        Absent taps are pads, or nothing.
        """
        layer, D, H = self.layer, self.width, self.mixer.heads
        taps = [taps[-1], *reversed(taps[:-1])]  # as the bias counts them: own, then older and older
        x = taps[0]
        read = taps if layer.post else [self._norm(each, layer.mixer_norm) for each in taps]
        missing = self.chunk - len(taps)
        if missing and self.pads:
            pad = self.pad(x)
            read = [*read, *[pad] * missing]
        q = self._linear(read[0], self.mixer.qkv, slice(0, D)).heads(H)
        known: dict[int, tuple[Plain, Plain]] = {}
        for each in read:
            if id(each) not in known:
                pair = (
                    self._linear(each, self.mixer.qkv, slice(D, 2 * D)),
                    self._linear(each, self.mixer.qkv, slice(2 * D, 3 * D)),
                )
                known[id(each)] = tuple(part.heads(H).expand(len(x)) for part in pair)  # pyright: ignore
        k, v = [known[id(each)][0] for each in read], [known[id(each)][1] for each in read]
        r, scale = self._w(self.mixer.r, x), (D // H) ** -0.5
        y = _attend(q, k, v, r[:, : len(k)], scale).merged()  # pyright: ignore
        x = x + self._linear(y, self.mixer.out)
        if layer.post:
            x = self._norm(x, layer.mixer_norm)
        read = x if layer.post else self._norm(x, layer.feed_norm)
        return (read if layer.post else x), read

    def combine(self, taps: Sequence[Plain]) -> Plain:
        """The node of these taps."""
        layer = self.layer
        x, read = self.attended(taps)
        if layer.gate is None:
            act = layer.activation is F.relu
            y = self._linear(read, layer.up)
            y = y.relu() if act else y.smooth("silu" if layer.activation is F.silu else "gelu")
        else:
            y = self._linear(read, layer.gate).smooth("silu") * self._linear(read, layer.up)
        x = x + self._linear(y, layer.down)
        return self._norm(x, layer.feed_norm) if layer.post else x

    def logits(self, node: Plain) -> Plain:
        x = self._norm(node, self.model.norm)
        if self.model.hidden is not None:
            x = self._linear(x, self.model.hidden).relu()
        return self._linear(x, self.model.head, self.outputs)

    # -- where it begins

    def pad(self, like: Plain) -> Plain:
        """The one vector that stands before the first token, as `like` is."""
        raw = self.model.pad if self.mixer.traits.shares_pad else self.mixer.pad
        assert raw is not None
        return Plain(raw[None].to(like.x.dtype))

    def leaf_vectors(self, symbols: Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
        """(len(symbols), D) embedded tokens, with gradients."""
        table = self.model.embedding.weight
        table = table if dtype is None else table.to(dtype)
        scale = self.model.config.embedding_scale
        rows = table[list(symbols)]
        return rows if scale == 1 else rows * scale

    def tree(self, tokens: Sequence[int], dtype: torch.dtype = torch.float64) -> Tensor:
        """(1,D) the last node of a word, group after group."""
        nodes = [x[None] for x in self.leaf_vectors(tokens, dtype)]
        first = True
        while first or len(nodes) > 1:
            first = False
            cuts = range(len(nodes), 0, -self.chunk)
            nodes = [self.combine([Plain(x) for x in nodes[max(0, end - self.chunk) : end]]).x for end in cuts][::-1]
        return nodes[0]
