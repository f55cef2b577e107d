"""Networks evaluated exactly: every number is a ball of 128 bits that holds the real one (Arb, by python-flint).

    node(x_{C-1}, …, x_0), head(x)          RegularGPT with one layer to a group
    step(h, s), head(h)                     RNN, GRU, LSTM
    functions(x), read(places), head(x)     stacks of automata

The weights are the numbers that they are, and nothing is rounded as the model rounds. The networks are written down
here once more, from the names of the weights alone, and share no code with the checker's or with the model's.

Shapes: D model width, C taps, H heads, G groups of M choices, h blocks of b places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

BITS = 128
LAYER_NORM = 1e-5
Ball = Any
"""`flint.arb`."""
Vector = list[Ball]


def flint() -> Any:
    """python-flint; its precision is set by whoever computes (`with flint().ctx.workprec(BITS)`)."""
    return pytest.importorskip("flint")


class ExactNetwork:
    """Weights as balls, and the operations of networks on vectors of them."""

    def __init__(self, config: dict[str, Any], tensors: dict[str, np.ndarray]):
        self.flint, self.config, self.tensors = flint(), config, tensors
        self.arb = self.flint.arb
        self._matrices: dict[str, Any] = {}

    def vector(self, numbers: Any) -> Vector:
        return [self.arb(float(x)) for x in np.asarray(numbers).ravel()]

    def linear(self, name: str, x: Vector) -> Vector:
        """W x + b of the weights `name`; b where there is one."""
        y = self._times(f"{name}.weight", x)
        return self.add(y, self.vector(self.tensors[f"{name}.bias"])) if f"{name}.bias" in self.tensors else y

    def _times(self, name: str, x: Vector) -> Vector:
        if name not in self._matrices:
            W = self.tensors[name]
            self._matrices[name] = self.flint.arb_mat(*W.shape, self.vector(W))
        return list((self._matrices[name] * self.flint.arb_mat(len(x), 1, x)).entries())

    def add(self, x: Vector, y: Vector) -> Vector:
        return [a + b for a, b in zip(x, y, strict=True)]

    def total(self, x: Sequence[Ball]) -> Ball:
        return sum(x, self.arb(0))

    def norm(self, name: str, x: Vector) -> Vector:
        """w (x - μ) / sqrt(σ² + eps) + b."""
        mean = self.total(x) / len(x)
        centred = [a - mean for a in x]
        rho = 1 / (self.total([a * a for a in centred]) / len(x) + LAYER_NORM).sqrt()
        w, b = (self.vector(self.tensors[f"{name}.{part}"]) for part in ("weight", "bias"))
        return [a * rho * scale + shift for a, scale, shift in zip(centred, w, b, strict=True)]

    def activation(self, name: str, x: Vector) -> Vector:
        if name == "relu":
            return [self.arb.max(a, self.arb(0)) for a in x]
        return [a / 2 * (1 + (a / self.arb(2).sqrt()).erf()) for a in x]

    def leaf(self, symbol: int) -> Vector:
        scale = self.arb(float(self.config["embedding_scale"]))
        return [a * scale for a in self.vector(self.tensors["embedding.weight"][symbol])]

    def head(self, x: Vector) -> Vector:
        if self.config["final_norm"]:
            x = self.norm("norm", x)
        if self.config["head"] == "two-layer":
            x = self.activation("relu", self.linear("hidden", x))
        if "head.weight" in self.tensors:
            return self.linear("head", x)
        y = self._times("embedding.weight", x)  # a tied head
        return self.add(y, self.vector(self.tensors["head.bias"])) if "head.bias" in self.tensors else y


AT = "depth.layers.0"


class ExactTree(ExactNetwork):
    def __init__(self, config: dict[str, Any], tensors: dict[str, np.ndarray]):
        super().__init__(config, tensors)
        self.mixer, self.block = (
            spec[0] if isinstance(spec, list) else spec for spec in (config["mixer"], config["block"])
        )
        self.nodes = config["depth"].get("nodes")
        self.padded = self.mixer["missing"] == "learned-pad"
        self.pad = (
            self.vector(tensors["pad" if self.mixer.get("shared_pad") else f"{AT}.mixer.pad"]) if self.padded else []
        )

    def code(self, choices: Sequence[int]) -> Vector:
        """The node of these choices: a vector of the codebook for each, added up."""
        rows = self.tensors[f"{AT}.nodes.codebook"]
        parts = [self.vector(rows[g * self.nodes["codes"] + choice]) for g, choice in enumerate(choices)]
        return [self.total(column) for column in zip(*parts, strict=True)]

    def choices(self, x: Vector) -> list[Vector]:
        """For each group the logits of its choices."""
        z, M = self.linear(f"{AT}.nodes.choose", x), self.nodes["codes"]
        return [z[i : i + M] for i in range(0, len(z), M)]

    def node(self, taps: Sequence[Vector]) -> Vector:
        """Of up to C taps, oldest first; those that are missing stand before the first token."""
        own, pre = taps[-1], self.block["norm"] == "pre"
        seen = [self.norm(f"{AT}.mixer_norm", x) if pre else x for x in reversed(taps)]
        seen += [self.pad] * (self.mixer["chunk"] - len(taps) if self.padded else 0)
        h = self.add(own, self._attention(seen))
        if pre:
            return self.add(h, self._feed(self.norm(f"{AT}.feed_norm", h)))
        h = self.norm(f"{AT}.mixer_norm", h)
        return self.norm(f"{AT}.feed_norm", self.add(h, self._feed(h)))

    def _attention(self, seen: Sequence[Vector]) -> Vector:
        """Out of the taps, the query's own first: Σ_j softmax_j(q · k_j / sqrt(d) + r_j) v_j for every head."""
        D, H = self.config["width"], self.mixer["heads"]
        d, r = D // H, self.tensors[f"{AT}.mixer.r"]
        rows = [self.linear(f"{AT}.mixer.qkv", x) for x in seen]
        mixed: Vector = []
        for head in range(H):
            part = slice(head * d, (head + 1) * d)
            q = rows[0][:D][part]
            keys, values = ([row[i * D : (i + 1) * D][part] for row in rows] for i in (1, 2))
            scores = [
                self.total([a * b for a, b in zip(q, k, strict=True)]) / self.arb(d).sqrt() + float(r[head, j])
                for j, k in enumerate(keys)
            ]
            sizes = [(s - scores[0]).exp() for s in scores]
            whole = self.total(sizes)
            mixed += [
                self.total([w * a for w, a in zip(sizes, column, strict=True)]) / whole
                for column in zip(*values, strict=True)
            ]
        return self.linear(f"{AT}.mixer.out", mixed)

    def _feed(self, x: Vector) -> Vector:
        return self.linear(f"{AT}.down", self.activation(self.block["activation"], self.linear(f"{AT}.up", x)))


class ExactRecurrence(ExactNetwork):
    """A joint state is h of the first layer, for an LSTM then its c, then those of the second layer, …"""

    def __init__(self, config: dict[str, Any], tensors: dict[str, np.ndarray]):
        super().__init__(config, tensors)
        self.layers, self.cell = config["depth"]["layers"], each(config["mixer"], 0)["name"]
        self.parts = 2 if self.cell == "lstm" else 1

    def step(self, state: Vector, symbol: int) -> Vector:
        D, after = self.config["width"], []
        x = self.leaf(symbol)
        for k in range(self.layers):
            at, own = f"depth.layers.{k}.mixer.cell", self.parts * D
            h, c = state[k * own :][:D], state[k * own :][D : 2 * D]
            a, b = (
                self.add(self._times(f"{at}.weight_{side}_l0", y), self.vector(self.tensors[f"{at}.bias_{side}_l0"]))
                for side, y in (("ih", x), ("hh", h))
            )
            a, b = ([y[i : i + D] for i in range(0, len(y), D)] for y in (a, b))
            if self.cell == "rnn":
                x = [y.tanh() for y in self.add(a[0], b[0])]
            elif self.cell == "gru":
                r, z = (self.sigmoid(self.add(a[i], b[i])) for i in (0, 1))
                n = [(p + q * gate).tanh() for p, q, gate in zip(a[2], b[2], r, strict=True)]
                x = [(1 - gate) * new + gate * old for gate, new, old in zip(z, n, h, strict=True)]
            else:
                i, f, o = (self.sigmoid(self.add(a[j], b[j])) for j in (0, 1, 3))
                g = [y.tanh() for y in self.add(a[2], b[2])]
                c = [p * q + keep * old for p, q, keep, old in zip(i, g, f, c, strict=True)]
                x = [gate * y.tanh() for gate, y in zip(o, c, strict=True)]
            after += [*x, *c] if self.cell == "lstm" else x
        return after

    def last(self, state: Vector) -> Vector:
        """The logits after a state."""
        D = self.config["width"]
        return self.head(state[(self.layers - 1) * self.parts * D :][:D])

    def sigmoid(self, x: Vector) -> Vector:
        return [1 / (1 + (-a).exp()) for a in x]


class ExactCascade(ExactNetwork):
    """Of each layer the entries of x_0 that are not 0: a state of it says where in its block each of them lies."""

    def __init__(self, config: dict[str, Any], tensors: dict[str, np.ndarray]):
        super().__init__(config, tensors)
        self.layers = range(config["depth"]["layers"])
        self.shapes, self.entries = [], []
        for k in self.layers:
            x0 = tensors.get(f"depth.layers.{k}.mixer.initial", np.zeros((1, 1)))
            self.shapes.append(x0.shape)
            self.entries.append([(int(i), int(j), float(x0[i, j])) for i, j in zip(*np.nonzero(x0), strict=True)])

    def functions(self, k: int, x: Vector) -> Vector:
        """The entries M[i, r, c] of the layer's blocks, row by row."""
        at = f"depth.layers.{k}"
        x = x if each(self.config["block"], k)["kind"] == "bare" else self.norm(f"{at}.mixer_norm", x)
        if each(self.config["mixer"], k)["transition"] == "linear":
            return self.linear(f"{at}.mixer.transition", x)
        x = self.activation("relu", self.linear(f"{at}.mixer.transition.0", x))
        return self.linear(f"{at}.mixer.transition.2", x)

    def column(self, k: int, functions: Vector, block: int, place: int) -> Vector:
        """Where an entry at this place of its block may go."""
        b = self.shapes[k][1]
        return [functions[(block * b + r) * b + place] for r in range(b)]

    def read(self, k: int, x: Vector, places: Sequence[int]) -> Vector:
        """What the next layer is given, where this one was given x and its entries lie at these places."""
        h, b = self.shapes[k]
        y = [self.arb(0)] * (h * b)
        for (block, _, value), place in zip(self.entries[k], places, strict=True):
            y[block * b + place] = y[block * b + place] + value
        if each(self.config["mixer"], k)["readout"] == "linear":
            y = self.linear(f"depth.layers.{k}.mixer.readout", y)
        return self.add(x, y) if each(self.config["block"], k)["kind"] == "residual" else y


def each(specs: Any, k: int) -> dict[str, Any]:
    """A layer's own options, where one may stand for all."""
    return specs[k] if isinstance(specs, list) else specs
