"""Networks evaluated exactly: every number is a ball of 128 bits that holds the real one (Arb, by python-flint).

    node(x_{C-1}, …, x_0), head(x)          RegularGPT with one layer to a group
    functions(x), head(x)                   stacks of automata

The weights are the numbers that they are, and nothing is rounded as the model rounds. The networks are written down
here once more, from the names of the weights alone, and share no code with the checker's or with the model's.

Shapes: D model width, C taps, H heads, G groups of M choices, h blocks of b places.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import Error

BITS = 128
LAYER_NORM = 1e-5
Ball = Any
"""`flint.arb`."""
Vector = list[Ball]


def flint() -> Any:
    """python-flint; its precision is set by whoever computes (`with flint().ctx.workprec(BITS)`)."""
    try:
        return importlib.import_module("flint")
    except ImportError as error:
        raise Error("Exact arithmetic needs python-flint. pip install 'lengthwise[exact]'.") from error


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
