"""What the networks of all families share: operations on intervals, embeddings, and a head.

Every operation is f(…) ± e: f on intervals, and e a bound of what the model's own arithmetic rounds (rounding.py).
Trees take points with slopes in their place (points.py).

Shapes: B boxes, n entries, D model width, V symbols, E outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .fields import Rejected, exactly, fields, whole
from .intervals import EPS, Array, Interval
from .rounding import ARITHMETICS, BOUNDED, Arithmetic
from .weights import Tensors, Weights

LAYER_NORM = 1e-5


class Operations:
    """The operations of a model that computes in this arithmetic."""

    def __init__(self, arithmetic: Arithmetic):
        self.arithmetic, self.u = arithmetic, arithmetic.u

    def linear(self, x: Interval, W: Array, b: Array | None = None) -> Interval:
        terms = _product(x.size, np.abs(W)) + (0 if b is None else np.abs(b))
        return x.affine(W, b).widened(self.arithmetic.linear(terms, W))

    def linear_of_both(self, x: Interval, W: Array, b: Array, h: Interval, U: Array, c: Array) -> Interval:
        """W x + b + U h + c as one sum, whose terms may be taken in any order, those of x and of h mixed."""
        terms = _product(x.size, np.abs(W)) + np.abs(b) + _product(h.size, np.abs(U)) + np.abs(c)
        return (x.affine(W, b) + h.affine(U, c)).widened(self.arithmetic.linear(terms, np.concatenate([W, U], 1)))

    def add(self, x: Interval, y: Interval) -> Interval:
        out = x + y
        return out.widened(self.arithmetic.add(out.size))

    def multiply(self, x: Interval, y: Interval) -> Interval:
        out = x * y
        return out.widened(self.arithmetic.up(self.u * out.size))

    def relu(self, x: Interval) -> Interval:
        return x.relu()

    # Where x may overflow it may be no number, and so may be its tanh: then nothing bounds it.

    def tanh(self, x: Interval) -> Interval:
        return x.tanh().widened(self.arithmetic.up(np.where(np.isfinite(x.size), BOUNDED * self.u, np.inf)))

    def sigmoid(self, x: Interval) -> Interval:
        return x.sigmoid().widened(self.arithmetic.up(np.where(np.isfinite(x.size), BOUNDED * self.u, np.inf)))

    def lerp(self, n: Interval, h: Interval, z: Interval) -> Interval:
        """(1 - z) n + z h, which is linear in z: its extremes are at the ends of z. Also computed as n + z (h - n)."""
        out = _between(n, h, Interval.of(z.lo)).hull(_between(n, h, Interval.of(z.hi)))
        return out.widened(self.arithmetic.up(self.arithmetic.gamma(8) * 2 * (n.size + h.size) * np.maximum(1, z.size)))

    def norm(self, x: Interval, w: Array, b: Array, eps: float) -> Interval:
        """(x - μ) ρ w + b, ρ = 1 / sqrt(σ² + eps), μ and σ² over the last axis."""
        n, r, m = x.shape[-1], x.radius, x.mid
        # Of each entry 1 - 1/n enters its own difference from the mean.
        off = r * ((n - 1) / n) + (r.sum(-1)[..., None] - r) / n
        off = off * (1 + (n + 16) * EPS) + n * EPS * np.abs(r).max(-1)[..., None]
        d = (x - _kept(x.mean(-1))).meet((Interval.of(m) - _kept(Interval.of(m).mean(-1))).widened(off))
        rho = _kept((d.square().mean(-1) + Interval.of(eps)).sqrt().reciprocal())
        noise = self.arithmetic.norm(x.size, d.size, rho.hi, w, b)
        return (d * rho * Interval.of(w) + Interval.of(b)).widened(noise)


@np.errstate(invalid="ignore")  # 0 times what may overflow is no number, and bounds nothing
def _product(x: Array, W: Array) -> Array:
    """x (…,n) with W (m,n), of numbers that are not negative: (…,m)."""
    return (x.reshape(-1, x.shape[-1]) @ W.T).reshape(*x.shape[:-1], len(W))


def _kept(x: Interval) -> Interval:
    return x[..., None]


def _between(n: Interval, h: Interval, z: Interval) -> Interval:
    return (Interval.of(1.0) - z) * n + z * h


class Network:
    """A config and its weights, each of which must be used."""

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
            x = x * Interval.of(float(scale))
            x = x.widened(self.arithmetic.up(4 * self.arithmetic.u * x.size))
        self.leaves: Any = x
        """(V,D)"""
        self._norm = self.norm("norm") if config["final_norm"] else None
        self._hidden = self.linear("hidden", D, D, True) if config["head"] == "two-layer" else None
        if config["tie_word_embeddings"]:
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


def each_layer(content: Any, count: int) -> list[dict[str, Any]]:
    """One for each layer."""
    specs = content if isinstance(content, list) else [content] * count
    if len(specs) != count or not all(isinstance(spec, dict) for spec in specs):
        raise Rejected(f"the config must say the mixer and block of each of {count} layers, got {content}.")
    return specs
