"""The networks of the presets, read from a config and its weights, on sets of vectors.

    tree         node(x_{C-1}, …, x_0), oldest first                  regular-gpt with one layer to a group
    recurrence   step(state, symbol)                                  rnn, gru, lstm
    both         head(x)

What stands before the first token of a tree is its pad, or nothing. A recurrence's state is all its layers': h of the
first, and for an LSTM its c, then those of the second, …

Shapes: B boxes, D model width, V symbols, E outputs, C taps, G groups of M choices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .fields import FLAG, OBJECT, Rejected, exactly, fields, maybe, real, whole
from .intervals import Array, Interval, concatenate
from .operations import Operations
from .points import Point, PointOperations
from .rounding import ARITHMETICS, Arithmetic
from .weights import Tensors, Weights

LAYER_NORM = 1e-5
DEPTH = {"name": exactly("adaptive"), "thickness": exactly(1), "chunk": whole(2), "by": exactly("sequence", "position")}
MAYBE_DEPTH = {"pad_tokens": exactly(False), "nodes": maybe(OBJECT), "snapped": maybe(OBJECT)}
MIXER = {"name": exactly("sliding-dilated"), "heads": whole(1), "chunk": whole(2), "biases": FLAG}
MIXER["missing"] = exactly("learned-pad", "drop")
BLOCK = {"kind": exactly("transformer"), "norm": exactly("pre", "post"), "activation": exactly("relu", "gelu")}
BLOCK["expansion"] = whole(1)


class Network:
    """What trees and recurrences share: embeddings, and a head."""

    operations: Callable[[Arithmetic], Any] = Operations

    def __init__(self, config: dict[str, Any], tensors: Tensors, arithmetic: str = "float32"):
        self.weights = Weights(tensors)
        if arithmetic not in ARITHMETICS or (arithmetic, self.weights.arithmetic) == ("float32", "float64"):
            raise Rejected(f"weights in {self.weights.arithmetic} are not evaluated in {arithmetic}.")
        self.arithmetic = ARITHMETICS[arithmetic]
        self.ops = type(self).operations(self.arithmetic)
        self.config = config
        self.width = D = config["width"]
        self.symbols = config["vocab_size"]
        self.outputs = self.symbols if config["num_outputs"] is None else config["num_outputs"]
        self._embedding = self.weights.take("embedding.weight", self.symbols, D)
        scale = config["embedding_scale"]
        x = Interval.of(self._embedding)
        if scale != 1:
            x = x.times(float(scale))
            x = x.widened(self.arithmetic.up(4 * self.arithmetic.u * x.size))
        self.leaves: Any = x
        """(V,D)"""
        self._norm = self.norm("norm") if config["final_norm"] else None
        self._hidden = self.linear("hidden", D, D, True) if config["head"] == "two-layer" else None
        if config["tie_word_embeddings"] and "head.weight" not in self.weights:
            if self.outputs != self.symbols:
                raise Rejected("a tied head must have as many outputs as there are symbols.")
            self._head = self._embedding, self.weights.take("head.bias", self.outputs) if config["head_bias"] else None
        else:
            self._head = self.linear("head", self.outputs, D, config["head_bias"])

    def linear(self, name: str, outputs: int, inputs: int, bias: bool) -> tuple[Array, Array | None]:
        W = self.weights.take(f"{name}.weight", outputs, inputs)
        return W, self.weights.take(f"{name}.bias", outputs) if bias else None

    def norm(self, name: str) -> tuple[Array, Array, float]:
        return *(self.weights.take(f"{name}.{part}", self.width) for part in ("weight", "bias")), LAYER_NORM  # type: ignore

    def fixed_layers(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The mixers and the blocks of the layers, of which each has weights of its own."""
        layers = fields("depth", self.config["depth"], {"name": exactly("fixed"), "layers": whole(1)})["layers"]
        if f"depth.layers.{layers - 1}." not in " ".join(self.weights.names):
            raise Rejected(f"the model has no weights of layer {layers - 1}, which its config asks for.")
        return each_layer(self.config["mixer"], layers), each_layer(self.config["block"], layers)

    def head(self, x: Any) -> Any:
        """(B,E) logits of vectors (B,D): intervals, or points."""
        if self._norm is not None:
            x = self.ops.norm(x, *self._norm)
        if self._hidden is not None:
            x = self.ops.relu(self.ops.linear(x, *self._hidden))
        return self.ops.linear(x, *self._head)


@dataclass(frozen=True)
class Tap:
    """A vector, and what the attention makes of it."""

    x: Point
    q: Point
    k: Point
    v: Point

    def take(self, index: Array) -> Tap:
        return Tap(*(part.take(index) for part in (self.x, self.q, self.k, self.v)))


class Tree(Network):
    operations = PointOperations

    def __init__(self, config: dict[str, Any], tensors: Tensors, arithmetic: str = "float32"):
        super().__init__(config, tensors, arithmetic)
        self.leaves = Point.of(self.leaves)
        D = self.width
        depth = fields("depth", config["depth"], DEPTH, MAYBE_DEPTH)
        self.chunk = C = depth["chunk"]
        mixer = fields("mixer", _only(config["mixer"]), MIXER, {"shared_pad": FLAG})
        self.heads = H = mixer["heads"]
        if D % H or mixer["chunk"] != C:
            raise Rejected(f"mixer: heads must divide the width, and its chunk be that of depth, got {mixer}.")
        self.padded = mixer["missing"] == "learned-pad"
        at = "depth.layers.0"
        W, b = self.linear(f"{at}.mixer.qkv", 3 * D, D, mixer["biases"])
        self._qkv = [(W[i * D : (i + 1) * D], None if b is None else b[i * D : (i + 1) * D]) for i in range(3)]
        self._out = self.linear(f"{at}.mixer.out", D, D, mixer["biases"])
        self._r = self.weights.take(f"{at}.mixer.r", H, C)
        if self.padded:
            pad = self.weights.take("pad" if mixer.get("shared_pad") else f"{at}.mixer.pad", D)
            self._pad = [self.ops.linear(Point.at(pad[None]), *part) for part in self._qkv[1:]]
        others = {"biases": FLAG, "normalisation": exactly("layer", None)}
        block = fields("block", _only(config["block"]), BLOCK, others)
        self.post, self.activation = block["norm"] == "post", block["activation"]
        self._norms = [self.norm(f"{at}.{name}") for name in ("mixer_norm", "feed_norm")]
        biases, hidden = block.get("biases", True), block["expansion"] * D
        self._up, self._down = self.linear(f"{at}.up", hidden, D, biases), self.linear(f"{at}.down", D, hidden, biases)
        self.codebook = None
        if (nodes := depth.get("nodes")) is not None:
            self.ops.wide = False
            fields("nodes", nodes, {"groups": whole(1), "codes": whole(2)})
            self.groups, self.choices = nodes["groups"], nodes["codes"]
            self._choose = self.linear(f"{at}.nodes.choose", self.groups * self.choices, D, True)
            self.codebook = self.weights.take(f"{at}.nodes.codebook", self.groups * self.choices, D)
        self.centres, self.radius = None, 0.0
        if (snapped := depth.get("snapped")) is not None:
            fields("snapped", snapped, {"centres": whole(1), "radius": real()})
            self.centres = self.weights.take(f"{at}.centres", snapped["centres"], D)
            self.radius = float(snapped["radius"])
        self.weights.done()

    def codes(self, chosen: Array) -> Point:
        """(B,D) the nodes of these choices (B,G): a vector of the codebook for each, added up."""
        assert self.codebook is not None
        picked = Interval.of(self.codebook[chosen + np.arange(self.groups) * self.choices])
        noise = self.arithmetic.up(self.arithmetic.gamma(self.groups + 2) * picked.size.sum(1))
        return Point.of(picked.sum(1).widened(noise))

    def read(self, x: Point) -> Tap:
        """What a tap is to the attention. (The pad is read as it is, before any norm.)"""
        seen = x if self.post else self.ops.norm(x, *self._norms[0])
        return Tap(x, *(self.ops.linear(seen, *part) for part in self._qkv))

    def node(self, taps: Sequence[Tap]) -> Point:
        """(B,D) of up to C taps, oldest first; those that are missing stand before the first token."""
        own, B = taps[-1], taps[-1].x.shape[0]
        keys, values = [tap.k for tap in reversed(taps)], [tap.v for tap in reversed(taps)]
        r = self._r
        if self.padded:
            for row, pad in ((keys, self._pad[0]), (values, self._pad[1])):
                row += [pad.repeated(B)] * (self.chunk - len(taps))
        else:
            r = r[:, : len(taps)]
        y = self.ops.linear(self.ops.attention(own.q, keys, values, r), *self._out)
        h = self.ops.add(own.x, y)
        if self.post:
            h = self.ops.norm(h, *self._norms[0])
            return self.ops.norm(self.ops.add(h, self._feed(h)), *self._norms[1])
        return self.ops.add(h, self._feed(self.ops.norm(h, *self._norms[1])))

    def choices_of(self, x: Point) -> Point:
        """(B,G M) the logits of the choices that a node's vector makes."""
        return self.ops.linear(x, *self._choose)

    def _feed(self, x: Point) -> Point:
        x = self.ops.linear(x, *self._up)
        return self.ops.linear(self.ops.relu(x) if self.activation == "relu" else self.ops.gelu(x), *self._down)


GATES = {"rnn": 1, "gru": 3, "lstm": 4}
SUMS = {"rnn": 1, "gru": 2, "lstm": 4}
"""How many gates are functions of one sum W x + b + U h + c: those of a GRU but the last."""


class Recurrence(Network):
    def __init__(self, config: dict[str, Any], tensors: Tensors, arithmetic: str = "float32"):
        super().__init__(config, tensors, arithmetic)
        D = self.width
        mixers, blocks = self.fixed_layers()
        for spec in blocks:
            fields("block", spec, {"kind": exactly("bare")}, {"biases": FLAG})
        self.layers = len(mixers)
        self.cell = fields("mixer", mixers[0], {"name": exactly(*GATES)})["name"]
        if any(spec != mixers[0] for spec in mixers):
            raise Rejected(f"mixer: only layers of one kind can be checked, got {mixers!r:.80}.")
        g, self._sums = GATES[self.cell], SUMS[self.cell]
        self._cells = []
        for k in range(self.layers):
            at = f"depth.layers.{k}.mixer.cell"
            parts = [self.weights.take(f"{at}.weight_{side}_l0", g * D, D) for side in ("ih", "hh")]
            biases = [self.weights.take(f"{at}.bias_{side}_l0", g * D) for side in ("ih", "hh")]
            gate = lambda x, i: x[i * D : (i + 1) * D]  # noqa: E731
            self._cells.append(
                [[(gate(W, i), gate(b, i)) for i in range(g)] for W, b in zip(parts, biases, strict=True)]
            )
        self.parts = 2 if self.cell == "lstm" else 1
        self.size = self.layers * self.parts * D
        """How many numbers the joint state has."""
        self.weights.done()

    def step(self, state: Interval, symbols: Array) -> Interval:
        """(B,size) the state after these symbols (B,)."""
        D, ops = self.width, self.ops
        before = [state[:, at : at + D] for at in range(0, self.size, D)]
        x, after = self.leaves[symbols], []
        for k, (reads, keeps) in enumerate(self._cells):
            h = before[k * self.parts]
            both = [ops.linear_of_both(x, *reads[i], h, *keeps[i]) for i in range(self._sums)]
            if self.cell == "rnn":
                x = ops.tanh(both[0])
            elif self.cell == "gru":
                r, z = map(ops.sigmoid, both)
                n = ops.tanh(ops.add(ops.linear(x, *reads[2]), ops.multiply(r, ops.linear(h, *keeps[2]))))
                x = ops.lerp(n, h, z)
            else:
                i, f, g, o = both
                c = ops.add(ops.multiply(ops.sigmoid(f), before[k * 2 + 1]), ops.multiply(ops.sigmoid(i), ops.tanh(g)))
                x = ops.multiply(ops.sigmoid(o), ops.tanh(c))
                after += [x, c]
                continue
            after.append(x)
        return concatenate(after, -1)

    def answer(self, state: Interval) -> Interval:
        """(B,E) the logits after a state: its last layer's h is what the head reads."""
        at = (self.layers - 1) * self.parts * self.width
        return self.head(state[:, at : at + self.width])


def _only(given: Any) -> dict[str, Any]:
    return each_layer(given, 1)[0]


def each_layer(given: Any, count: int) -> list[dict[str, Any]]:
    """One for each layer."""
    found = given if isinstance(given, list) else [given] * count
    if len(found) != count or not all(isinstance(spec, dict) for spec in found):
        raise Rejected(f"the config must say the mixer and block of each of {count} layers, got {given}.")
    return found
