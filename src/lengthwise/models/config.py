"""A model as data: `LengthwiseConfig` says which mixer, positions and depth stand in the one shell.

LengthwiseConfig(vocab_size=2, mixer={"name": "softmax", "heads": 8}, depth={"name": "fixed", "layers": 5})
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf
from typing import Any, Literal

from transformers import PreTrainedConfig

from ..errors import Error, UnknownName


@dataclass(frozen=True)
class Block:
    """How a mixer is wrapped: the `block` of a config, with its defaults."""

    kind: str = "transformer"
    """"transformer": mixer and feed-forward, each with a residual and a norm; "residual": x + mixer(norm(x)); "normed":
    mixer(norm(x)); "bare": the mixer alone."""
    norm: str = "pre"
    """"pre": x + f(norm(x)); "post": norm(x + f(x))."""
    activation: str = "gelu"
    expansion: int = 4
    biases: bool = True
    """On the feed-forward maps (a mixer has its own say)."""

    def __post_init__(self):
        for name, allowed in [
            ("kind", ("transformer", "residual", "normed", "bare")),
            ("norm", ("pre", "post")),
            ("activation", ("gelu", "relu")),
        ]:
            if getattr(self, name) not in allowed:
                raise Error(f"block.{name} is {' or '.join(allowed)}, got {getattr(self, name)!r}.")
        if self.expansion < 1:
            raise Error(f"block.expansion must be at least 1, got {self.expansion}.")

    @classmethod
    def of(cls, options: dict[str, Any]) -> Block:
        known = {f.name for f in fields(cls)}
        for name in options:
            if name not in known:
                raise UnknownName("block option", name, known)
        return cls(**options)


class LengthwiseConfig(PreTrainedConfig):
    model_type = "lengthwise"
    attribute_map = {"hidden_size": "width"}  # noqa: RUF012

    vocab_size: int = 2
    num_outputs: int | None = None
    """Width of the head; None: `vocab_size`."""
    width: int = 64
    mixer: dict[str, Any] | list[dict[str, Any]] | None = None
    """`{"name": …, options}`, or a list with one for every layer; None: softmax attention."""
    position: dict[str, Any] | None = None
    """`{"name": …, options}`; None: no positions."""
    depth: dict[str, Any] | None = None
    """`{"name": "fixed", "layers": 5}` or `{"name": "adaptive", "chunk": 2, "thickness": 1}`; None: fixed."""
    block: dict[str, Any] | list[dict[str, Any]] | None = None
    """Fields of `Block`, or a list with those of every layer; what is not named keeps its default."""
    embedding_scale: float = 1.0
    final_norm: bool = True
    head: Literal["linear", "two-layer"] = "linear"
    """"two-layer": linear, ReLU, linear."""
    dropout: float = 0.0
    """On the embeddings and on what every sublayer adds, while training."""
    initializer_range: float | None = None
    """Standard deviation of every weight; None: 1/sqrt(fan-in), and embeddings that enter with unit variance."""
    tie_word_embeddings: bool = False
    use_cache: bool = False

    def __post_init__(self, **kwargs):
        self.mixer = self.mixer or {"name": "softmax"}
        self.position = self.position or {"name": "none"}
        self.depth = self.depth or {"name": "fixed"}
        self.block = self.block or {}
        super().__post_init__(**kwargs)
        self._refuse_unknown(kwargs)
        self.blocks(1)
        if self.head not in ("linear", "two-layer"):
            raise UnknownName("head", self.head, ("linear", "two-layer"))
        for name in ("vocab_size", "width"):
            if getattr(self, name) < 1:
                raise Error(f"{name} must be at least 1, got {getattr(self, name)}.")
        if not 0 <= self.dropout < 1:
            raise Error(f"dropout is a probability, from 0 to below 1, got {self.dropout}.")
        if not 0 < self.embedding_scale < inf:
            raise Error(f"embedding_scale must be a finite number above 0, got {self.embedding_scale}.")
        if self.tie_word_embeddings and self.outputs != self.vocab_size:
            raise Error(
                f"tie_word_embeddings needs num_outputs = vocab_size, got {self.outputs} and {self.vocab_size}. "
                "Untie them, or leave num_outputs out."
            )

    def _refuse_unknown(self, given: dict[str, Any]) -> None:
        """A misspelt field would otherwise become an attribute which nothing reads."""
        if "model_type" in given:
            return  # a saved config, in which other tools may have left fields of their own
        for key in given:
            # What transformers took for itself is no attribute now, or one that all its configs have.
            foreign = key in vars(self) and not hasattr(PreTrainedConfig, key)
            if foreign and not key.startswith("_") and not key.endswith("_token_id") and key != "tokenizer_class":
                raise UnknownName("config field", key, [*LengthwiseConfig.__annotations__, *self.attribute_map])

    def blocks(self, layers: int) -> list[Block]:
        """One for every layer."""
        given = self.block if isinstance(self.block, list) else [self.block or {}] * layers
        return [Block.of(options) for options in given]

    @property
    def heads(self) -> int:
        """Those of the first mixer that says how many it has; 1 if none does."""
        specs = self.mixer if isinstance(self.mixer, list) else [self.mixer or {}]
        return next((spec["heads"] for spec in specs if "heads" in spec), 1)

    @property
    def outputs(self) -> int:
        return self.vocab_size if self.num_outputs is None else self.num_outputs
