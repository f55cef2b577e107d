"""A model as data: `LengthwiseConfig` says which mixer, positions and depth stand in the one shell.

LengthwiseConfig(
    vocab_size=2,
    width=64,
    mixer={"name": "softmax", "heads": 8},
    depth={"name": "fixed", "layers": 5},
    block={"kind": "transformer", "norm": "pre", "activation": "gelu", "expansion": 4},
)

A preset fills one in, and its signature is the one place of a default.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf
from typing import Any, Literal

from transformers import PreTrainedConfig

from ..errors import Error, UnknownName
from ..options import Option, at_least
from .portable import Portable

ACTIVATIONS = ("gelu", "relu", "swiglu")
"""Of the feed-forward network W2 act(W1 x); "swiglu": W2 (silu(W3 x) * W1 x), as in LLaMA."""
NORMALISATIONS = ("layer", "rms")
"""LayerNorm, or x / rms(x) with a factor for each entry, as in LLaMA."""


@dataclass(frozen=True)
class Block:
    """The block around a mixer: the `block` of a config."""

    kind: str
    """"transformer": mixer and feed-forward, each with a residual and a norm; "residual": x + mixer(norm(x)); "normed":
    mixer(norm(x)); "bare": the mixer alone."""
    norm: str | None = None
    """Of a transformer block, which must say it: "pre": x + f(norm(x)); "post": norm(x + f(x))."""
    activation: str | None = None
    """Of a transformer block, which must say it: one of `ACTIVATIONS`."""
    expansion: float | None = None
    """Of a transformer block, which must say it: how many times the width its hidden layer is."""
    biases: bool = True
    """On the feed-forward maps (a mixer has its own say)."""
    normalisation: str | None = None
    """Which norm: one of `NORMALISATIONS`, None: LayerNorm. The model's last norm is that of its last block."""

    def __post_init__(self):
        kinds = ("transformer", "residual", "normed", "bare")
        if self.normalisation not in (None, *NORMALISATIONS):
            raise UnknownName("block.normalisation", self.normalisation, NORMALISATIONS)
        if self.kind not in kinds:
            raise Error(f"block.kind is {' or '.join(kinds)}, got {self.kind!r}.")
        if self.kind != "transformer":
            if (self.norm, self.activation, self.expansion) != (None, None, None):
                raise Error(
                    f"block: norm, activation and expansion are a transformer block's, and kind is {self.kind}."
                )
            return
        for name, value, allowed in [
            ("norm", self.norm, ("pre", "post")),
            ("activation", self.activation, ACTIVATIONS),
        ]:
            if value not in allowed:
                raise Error(f"block.{name} is {' or '.join(allowed)}, got {value!r}.")
        if self.expansion is None or self.expansion < 1:
            raise Error(f"block.expansion must be at least 1, got {self.expansion}.")

    def hidden(self, width: int) -> int:
        """The width of the hidden layer."""
        return int((self.expansion or 0) * width)

    @classmethod
    def of(cls, options: dict[str, Any]) -> Block:
        known = {f.name for f in fields(cls)}
        for name in options:
            if name not in known:
                raise UnknownName("block option", name, known)
        if "kind" not in options:
            raise Error(f"block must say its kind (transformer, residual, normed or bare), got {options}.")
        return cls(**options)


INITIALISED = ("embedding", "linear", "pad", "r", "initial")
"""What `LengthwiseConfig.initialisation` may speak of."""

KINDS = {
    option.name: option
    for option in (
        *(Option(name, int) for name in ("vocab_size", "width")),
        Option("num_outputs", int | None, bounds=at_least(1)),
        *(Option(name, dict | list | None) for name in ("mixer", "block")),
        *(Option(name, dict | None) for name in ("position", "depth")),
        *(Option(name, float) for name in ("embedding_scale", "dropout")),
        Option("initializer_range", float | None, bounds=at_least(0)),
        *(Option(name, bool) for name in ("final_norm", "tie_word_embeddings", "use_cache")),
    )
}
"""What the fields of a config are; what they may be beyond that, the config says of them together."""


class LengthwiseConfig(Portable, PreTrainedConfig):
    model_type = "lengthwise"
    attribute_map = {"hidden_size": "width"}  # noqa: RUF012

    vocab_size: int = 2
    num_outputs: int | None = None
    """Width of the head; None: `vocab_size`."""
    width: int = 0
    """Of every token's vector; a model needs at least 1."""
    mixer: dict[str, Any] | list[dict[str, Any]] | None = None
    """`{"name": …, options}`, or a list with one for every layer. A model needs it."""
    position: dict[str, Any] | None = None
    """`{"name": …, options}`; None: no positions."""
    depth: dict[str, Any] | None = None
    """`{"name": "fixed", "layers": 5}` or `{"name": "adaptive", "chunk": 2, "thickness": 1, "by": "sequence"}`.
    A model needs it. Nodes of an adaptive one are discrete with `"nodes": {"groups": 16, "codes": 8}`."""
    block: dict[str, Any] | list[dict[str, Any]] | None = None
    """Fields of `Block`, or a list with those of every layer. A model needs it."""
    embedding_scale: float = 1.0
    final_norm: bool = True
    head: Literal["linear", "two-layer"] = "linear"
    """"two-layer": linear, ReLU, linear."""
    head_bias: bool = True
    dropout: float = 0.0
    """On the embeddings and on what every sublayer adds, while training."""
    initializer_range: float | None = None
    """Standard deviation of every weight; None: 1/sqrt(fan-in), and embeddings that enter with unit variance."""
    initialisation: dict[str, float | str] | None = None
    """Where weights start otherwise than by `initializer_range`: the standard deviation of "embedding", "linear",
    "pad", the attention's "r" or a recurrence's "initial" state; "linear" may be "torch", as torch starts them."""
    tie_word_embeddings: bool = False
    use_cache: bool = False

    def __post_init__(self, **kwargs):
        for name, option in KINDS.items():
            setattr(self, name, option.read(getattr(self, name), f"config: {name}"))
        self.position = self.position or {"name": "none"}
        super().__post_init__(**kwargs)
        self._refuse_unknown(kwargs)
        if self.block is not None:
            self.blocks(1)
        if self.head not in ("linear", "two-layer"):
            raise UnknownName("head", self.head, ("linear", "two-layer"))
        for name in self.initialisation or {}:
            if name not in INITIALISED:
                raise UnknownName("weights of initialisation", name, INITIALISED)
        if self.vocab_size < 1:
            raise Error(f"vocab_size must be at least 1, got {self.vocab_size}.")
        if not 0 <= self.dropout < 1:
            raise Error(f"dropout is a probability, from 0 to below 1, got {self.dropout}.")
        if not 0 < self.embedding_scale < inf:
            raise Error(f"embedding_scale must be a finite number above 0, got {self.embedding_scale}.")
        if self.tie_word_embeddings and self.outputs != self.vocab_size:
            raise Error(
                f"tie_word_embeddings needs num_outputs = vocab_size, got {self.outputs} and {self.vocab_size}. "
                "Untie them, or leave num_outputs out."
            )

    def _refuse_unknown(self, options: dict[str, Any]) -> None:
        """A misspelt field would otherwise become an attribute which nothing reads."""
        if "model_type" in options:
            return  # a saved config, in which other tools may have left fields of their own
        for key in options:
            # What transformers took for itself is no attribute now, or one that all its configs have.
            foreign = key in vars(self) and not hasattr(PreTrainedConfig, key)
            if foreign and not key.startswith("_") and not key.endswith("_token_id") and key != "tokenizer_class":
                raise UnknownName("config field", key, [*LengthwiseConfig.__annotations__, *self.attribute_map])

    def blocks(self, layers: int) -> list[Block]:
        """One for every layer."""
        specs = self.block if isinstance(self.block, list) else [self.block or {}] * layers
        return [Block.of(options) for options in specs]

    @property
    def heads(self) -> int:
        """Those of the first mixer that says how many it has; 1 if none does."""
        specs = self.mixer if isinstance(self.mixer, list) else [self.mixer or {}]
        return next((spec["heads"] for spec in specs if "heads" in spec), 1)

    @property
    def outputs(self) -> int:
        return self.vocab_size if self.num_outputs is None else self.num_outputs
