"""The networks of the presets, read from a config and its weights, on sets of vectors.

    tree         node(x_{C-1}, …, x_0), oldest first                  regular-gpt with one layer to a group
    recurrence   step(state, symbol)                                  rnn, gru, lstm
    both         head(x)

What stands before the first token of a tree is its pad, or nothing. A recurrence's state is all its layers': h of the
first, and for an LSTM its c, then those of the second, …

Shapes: B boxes, D model width, V symbols, E outputs, C taps, G groups of M choices.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .claimed import reals
from .intervals import Array, Interval
from .mean_value import Value, constant
from .operations import Operations
from .points import Point, PointOperations
from .rounding import ARITHMETICS
from .weights import Rejected, Tensors, Weights

LAYER_NORM = 1e-5


def known(what: str, given: Any, *, fixed: dict[str, Any], free: Sequence[str] = ()) -> dict[str, Any]:
    """Options that must have these values, or any; nothing else may be among them."""
    if not isinstance(given, dict) or not given.keys() <= {*fixed, *free}:
        raise Rejected(f"{what} has options that the checker does not know: {given}.")
    for name, value in fixed.items():
        if given.get(name, value) != value:
            raise Rejected(f"{what}: only {name} = {value!r} can be checked, got {given[name]!r}.")
    return given


class Network:
    """What trees and recurrences share: embeddings, and a head."""

    def __init__(self, config: dict[str, Any], tensors: Tensors, arithmetic: str = "float32"):
        self.weights = Weights(tensors)
        if arithmetic not in ARITHMETICS or (arithmetic, self.weights.arithmetic) == ("float32", "float64"):
            raise Rejected(f"weights in {self.weights.arithmetic} are not evaluated in {arithmetic}.")
        self.arithmetic = ARITHMETICS[arithmetic]
        self.ops: Any = Operations(self.arithmetic)
        self.config = config
        self.width = D = whole_number(config, "width")
        self.symbols = whole_number(config, "vocab_size")
        outputs = config["num_outputs"]
        self.outputs = self.symbols if outputs is None else whole_number(config, "num_outputs")
        known("position", config["position"], fixed={"name": "none"})
        self._embedding = self.weights.take("embedding.weight", self.symbols, D)
        scale = config["embedding_scale"]
        if not isinstance(scale, (int, float)) or not 0 < scale < 2.0**20:
            raise Rejected(f"embedding_scale must be a number above 0, got {scale!r}.")
        x = Interval.of(self._embedding)
        x = x if scale == 1 else x.times(float(scale))
        off = np.zeros(x.shape) if scale == 1 else self.arithmetic.up(4 * self.arithmetic.u * x.size)
        self.leaves = constant(x, off)
        """(V,D)"""
        self._norm = self.norm("norm") if config["final_norm"] else None
        if config["head"] not in ("linear", "two-layer"):
            raise Rejected(f"head must be linear or two-layer, got {config['head']!r}.")
        self._hidden = self.linear("hidden", D, D, True) if config["head"] == "two-layer" else None
        if config["tie_word_embeddings"] and "head.weight" not in self.weights:
            if self.outputs != self.symbols:
                raise Rejected("a tied head must have as many outputs as there are symbols.")
            self._head = self._embedding, self.weights.take("head.bias", self.outputs) if config["head_bias"] else None
        else:
            self._head = self.linear("head", self.outputs, D, bool(config["head_bias"]))

    def linear(self, name: str, outputs: int, inputs: int, bias: bool) -> tuple[Array, Array | None]:
        W = self.weights.take(f"{name}.weight", outputs, inputs)
        return W, self.weights.take(f"{name}.bias", outputs) if bias else None

    def norm(self, name: str) -> tuple[Array, Array, float]:
        return *(self.weights.take(f"{name}.{part}", self.width) for part in ("weight", "bias")), LAYER_NORM  # type: ignore

    def head(self, x: Any) -> Any:
        """(B,E) logits of vectors (B,D): values, or points."""
        if self._norm is not None:
            x = self.ops.norm(x, *self._norm)
        if self._hidden is not None:
            x = self.ops.relu(self.ops.linear(x, *self._hidden))
        return self.ops.linear(x, *self._head)


@dataclass(frozen=True)
class Tap:
    """A vector, and what the attention makes of it: values, or points."""

    x: Any
    q: Any
    k: Any
    v: Any

    def take(self, index: Array) -> Tap:
        return Tap(*(part.take(index) for part in (self.x, self.q, self.k, self.v)))

    def points(self) -> Tap:
        return Tap(*(Point.of(part) for part in (self.x, self.q, self.k, self.v)))


class Tree(Network):
    def __init__(self, config: dict[str, Any], tensors: Tensors, arithmetic: str = "float32"):
        super().__init__(config, tensors, arithmetic)
        D = self.width
        depth = known(
            "depth",
            config["depth"],
            fixed={"name": "adaptive", "thickness": 1, "pad_tokens": False},
            free=("chunk", "by", "nodes", "snapped"),
        )
        self.chunk = C = whole_number(depth, "chunk", 2)
        if depth.get("by") not in ("sequence", "position"):
            raise Rejected(f"depth: by must be sequence or position, got {depth.get('by')!r}.")
        mixer = _only(config["mixer"])
        known(
            "mixer",
            mixer,
            fixed={"name": "sliding-dilated", "chunk": C},
            free=("heads", "missing", "shared_pad", "biases"),
        )
        self.heads = H = whole_number(mixer, "heads")
        if D % H or mixer.get("missing") not in ("learned-pad", "drop"):
            raise Rejected(f"mixer: heads must divide the width, and missing be learned-pad or drop, got {mixer}.")
        self.padded = mixer["missing"] == "learned-pad"
        at = "depth.layers.0"
        W, b = self.linear(f"{at}.mixer.qkv", 3 * D, D, bool(mixer.get("biases")))
        self._qkv = [(W[i * D : (i + 1) * D], None if b is None else b[i * D : (i + 1) * D]) for i in range(3)]
        self._out = self.linear(f"{at}.mixer.out", D, D, bool(mixer.get("biases")))
        self._r = self.weights.take(f"{at}.mixer.r", H, C)
        if self.padded:
            pad = self.weights.take("pad" if mixer.get("shared_pad") else f"{at}.mixer.pad", D)
            self._pad = [self.ops.linear(constant(Interval.of(pad[None])), *part) for part in self._qkv[1:]]
        block = _only(config["block"])
        known(
            "block",
            block,
            fixed={"kind": "transformer"},
            free=("norm", "activation", "expansion", "biases", "normalisation"),
        )
        if block.get("normalisation") not in (None, "layer") or block.get("norm") not in ("pre", "post"):
            raise Rejected(f"block: only layer norms, pre or post, can be checked, got {block}.")
        if block.get("activation") not in ("relu", "gelu"):
            raise Rejected(f"block: only ReLU and GELU can be checked, got {block.get('activation')!r}.")
        self.post, self.activation = block["norm"] == "post", block["activation"]
        self._norms = [self.norm(f"{at}.{name}") for name in ("mixer_norm", "feed_norm")]
        biases, hidden = bool(block.get("biases", True)), whole_number(block, "expansion") * D
        self._up, self._down = self.linear(f"{at}.up", hidden, D, biases), self.linear(f"{at}.down", D, hidden, biases)
        self.codebook = None
        if (nodes := depth.get("nodes")) is not None:
            known("nodes", nodes, fixed={}, free=("groups", "codes"))
            self.groups, self.choices = whole_number(nodes, "groups"), whole_number(nodes, "codes", 2)
            self._choose = self.linear(f"{at}.nodes.choose", self.groups * self.choices, D, True)
            self.codebook = self.weights.take(f"{at}.nodes.codebook", self.groups * self.choices, D)
        self.centres, self.radius = None, 0.0
        if (snapped := depth.get("snapped")) is not None:
            known("snapped", snapped, fixed={}, free=("centres", "radius"))
            self.centres = self.weights.take(f"{at}.centres", whole_number(snapped, "centres"), D)
            self.radius = float(reals([snapped.get("radius")], "the radius of snapped nodes", 1, 0.0)[0])
        self.weights.done()

    def at_points(self, operations: type[PointOperations] = PointOperations) -> Tree:
        """The same tree, whose nodes are made of points."""
        same = copy.copy(self)
        same.ops = operations(self.arithmetic)
        if self.padded:
            same._pad = [Point.of(pad) for pad in self._pad]
        return same

    def codes(self, chosen: Array) -> Value:
        """(B,D) the nodes of these choices (B,G): a vector of the codebook for each, added up."""
        assert self.codebook is not None
        picked = Interval.of(self.codebook[chosen + np.arange(self.groups) * self.choices])
        noise = self.arithmetic.up(self.arithmetic.gamma(self.groups + 2) * picked.size.sum(1))
        return constant(picked.sum(1), noise)

    def read(self, x: Any) -> Tap:
        """What a tap is to the attention. (The pad is read as it is, before any norm.)"""
        seen = x if self.post else self.ops.norm(x, *self._norms[0])
        return Tap(x, *(self.ops.linear(seen, *part) for part in self._qkv))

    def node(self, taps: Sequence[Tap]) -> Any:
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

    def choices_of(self, x: Any) -> Any:
        """(B,G M) the logits of the choices that a node's vector makes."""
        return self.ops.linear(x, *self._choose)

    def _feed(self, x: Any) -> Any:
        x = self.ops.linear(x, *self._up)
        return self.ops.linear(self.ops.relu(x) if self.activation == "relu" else self.ops.gelu(x), *self._down)


GATES = {"rnn": 1, "gru": 3, "lstm": 4}
SUMS = {"rnn": 1, "gru": 2, "lstm": 4}
"""How many gates are functions of one sum W x + b + U h + c: those of a GRU but the last."""


class Recurrence(Network):
    def __init__(self, config: dict[str, Any], tensors: Tensors, arithmetic: str = "float32"):
        super().__init__(config, tensors, arithmetic)
        D = self.width
        depth = known("depth", config["depth"], fixed={"name": "fixed"}, free=("layers",))
        self.layers = whole_number(depth, "layers")
        mixers, blocks = each_layer(config["mixer"], self.layers), each_layer(config["block"], self.layers)
        for spec in blocks:
            known("block", spec, fixed={"kind": "bare"}, free=("biases",))
        self.cell = known("mixer", mixers[0], fixed={}, free=("name",)).get("name")
        if not isinstance(self.cell, str) or self.cell not in GATES or any(spec != mixers[0] for spec in mixers):
            raise Rejected(f"mixer: only layers of one kind, rnn, gru or lstm, can be checked, got {mixers}.")
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

    def step(self, state: Value, symbols: Array) -> Value:
        """(B,size) the state after these symbols (B,)."""
        D, ops = self.width, self.ops
        before = ops.split(state, range(D, self.size, D))
        x, after = self.leaves.take(symbols), []
        x.point = x.exact
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
        return ops.join(after)

    def answer(self, state: Value) -> Value:
        """(B,E) the logits after a state: its last layer's h is what the head reads."""
        D = self.width
        at = (self.layers - 1) * self.parts
        return self.head(self.ops.split(state, range(D, self.size, D))[at])


def whole_number(options: dict[str, Any], name: str, least: int = 1) -> int:
    x = options.get(name)
    if type(x) is not int or x < least:
        raise Rejected(f"{name} must be a whole number of at least {least}, got {x!r}.")
    return x


def _only(given: Any) -> dict[str, Any]:
    return each_layer(given, 1)[0]


def each_layer(given: Any, count: int) -> list[dict[str, Any]]:
    """One for each layer."""
    found = given if isinstance(given, list) else [given] * count
    if len(found) != count or not all(isinstance(spec, dict) for spec in found):
        raise Rejected(f"the config must say the mixer and block of each of {count} layers, got {given}.")
    return found
