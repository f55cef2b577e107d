"""Presets whose layers are attention: RegularGPT, Transformers, and ChaCAL.

>>> regular_gpt(vocab_size=2, width=32, heads=4).depth
{'name': 'adaptive', 'chunk': 2, 'thickness': 1, 'by': 'sequence', 'pad_tokens': False}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ... import positions
from ...errors import Error, UnknownName
from ...options import OptionsOf, above, at_least
from ..config import LengthwiseConfig
from .shared_options import (
    Activation,
    Dropout,
    Expansion,
    Heads,
    Initialisation,
    InitializerRange,
    Layers,
    LogScale,
    MaxLength,
    Norm,
    QKNorm,
    Tied,
    Width,
)

if TYPE_CHECKING:
    PositionName = str
else:
    # Whatever is registered, in its order; a type checker reads no registry.
    PositionName = Literal[tuple(positions.POSITIONS)]
PositionOptions = Annotated[dict | None, "The position's own options, by name."]
BlockName = Annotated[
    Literal["gpt2", "llama"], "Whose layers: GPT-2's, or LLaMA's with RMSNorm, SwiGLU and no biases anywhere."
]
SIZES = "width heads expansion dropout tie_word_embeddings"
"""Options of `transformer` that all presets have which are one with other layers."""
Variant = Literal["lengthwise", "paper", "official"]
VARIANTS: dict[str, dict[str, Any]] = {
    "lengthwise": {"missing": "learned-pad", "norm": "post", "activation": "gelu", "biases": False},
    "paper": {"missing": "learned-pad", "norm": "pre", "activation": "gelu", "biases": True},
    "official": {"missing": "official", "norm": "post", "activation": "relu", "biases": False},
}


def regular_gpt(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    width: Width = 64,
    heads: Heads = 8,
    chunk: Annotated[int, at_least(2), "How many tokens attention combines into one, group after group."] = 2,
    thickness: Annotated[int, at_least(1), "How many layers a group has."] = 1,
    depth: Annotated[
        Literal["sequence", "position"],
        "What decides how many groups run: the sequence's length (the paper) or the position (causal, with a cache).",
    ] = "sequence",
    nodes: Annotated[
        Literal["continuous", "discrete"],
        "What a group of layers makes of tokens: any vector, or one of finitely many.",
    ] = "continuous",
    groups: Annotated[
        int | None, at_least(1), "Discrete nodes: how many choices a node is; None: width / codes."
    ] = None,
    codes: Annotated[int | None, at_least(2), "Discrete nodes: among how many each choice is; None: 8."] = None,
    variant: Annotated[Variant, "Whose network it is; sets the options that are None."] = "lengthwise",
    missing: Annotated[
        Literal["learned-pad", "drop", "official"] | None,
        "What stands before the first token: a learned vector, nothing, or the released code's pad tokens.",
    ] = None,
    norm: Annotated[Norm | None, "Whether a sublayer is normalised before it or after its sum."] = None,
    activation: Annotated[Activation | None, "The nonlinearity of the feed-forward networks."] = None,
    biases: Annotated[bool | None, "Whether the maps of the attention have biases."] = None,
    embedding_scale: Annotated[
        float | None, above(0), "What embeddings are multiplied by; None: 1, or sqrt(width) where that is needed."
    ] = None,
    expansion: Expansion = 4,
    initialisation: Initialisation = "lengthwise",
    dropout: Dropout = 0.0,
    tie_word_embeddings: Tied = False,
) -> LengthwiseConfig:
    """RegularGPT: shared layers of sliding-dilated attention, as many groups as the length asks for.

    `variant` settles what is None: "paper" is the GPT-2 block of the text; "official" the network of the released code
    (post-norm, ReLU, no biases in the attention, embeddings times sqrt(width), its own reading of padding, the last
    position alone); "lengthwise" is post-norm too, since that keeps every group's output at one scale, and so is what
    holds at depths never seen in training: after 500 steps of PARITY at lengths 1 to 40, pre-norm is right on 80 to
    95% of strings of 41 to 500, post-norm on all.

    What depth by position means and what discrete nodes are: models/depth.py and discrete_nodes.py.
    """
    if variant not in VARIANTS:
        raise UnknownName("variant of regular-gpt", variant, VARIANTS)
    usual = VARIANTS[variant]
    missing, norm = missing or usual["missing"], norm or usual["norm"]
    if nodes == "continuous" and (groups, codes) != (None, None):
        raise Error(
            f'regular-gpt: groups and codes are of discrete nodes, got {groups} and {codes}. Set nodes="discrete".'
        )
    discrete = {"groups": groups or max(1, width // (codes or 8)), "codes": codes or 8}
    # A tied head reads logits off the embedding itself, whose entries must then be small.
    scale = width**0.5 if tie_word_embeddings or variant == "official" else 1.0
    scale = scale if embedding_scale is None else embedding_scale
    # The released embeddings have this deviation once they are multiplied by the scale.
    released = {"embedding": 0.14 / scale, "linear": 0.11, "pad": 0.02, "r": 0.02}
    return LengthwiseConfig(
        vocab_size=vocab_size,
        num_outputs=num_outputs,
        width=width,
        mixer={
            "name": "sliding-dilated",
            "heads": heads,
            "chunk": chunk,
            "missing": "drop" if missing == "official" else missing,
            "shared_pad": True,
            "biases": usual["biases"] if biases is None else biases,
        },
        depth={
            "name": "adaptive",
            "chunk": chunk,
            "thickness": thickness,
            "by": depth,
            "pad_tokens": missing == "official",
            # Left out of a config of continuous nodes, as it is of those from before there were others.
            **({"nodes": discrete} if nodes == "discrete" else {}),
        },
        block={
            "kind": "transformer",
            "norm": norm,
            "activation": activation or usual["activation"],
            "expansion": expansion,
        },
        final_norm=norm == "pre",
        dropout=dropout,
        embedding_scale=scale,
        initialisation=released if initialisation == "official" else None,
        tie_word_embeddings=tie_word_embeddings,
    )


def transformer(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    width: Width = 64,
    heads: Heads = 8,
    layers: Layers = 5,
    position: Annotated[PositionName, "How tokens know where they are."] = "sinusoidal",
    position_options: PositionOptions = None,
    max_length: MaxLength = 512,
    log_scale: LogScale = None,
    qk_norm: QKNorm = False,
    window: Annotated[
        int | None,
        at_least(1),
        "RNoPE-SWA: every fourth layer reads all tokens and knows no positions, the others read so many; None: all do.",
    ] = None,
    block: BlockName = "gpt2",
    norm: Norm = "pre",
    activation: Activation = "gelu",
    expansion: Expansion = 4,
    dropout: Dropout = 0.0,
    initializer_range: InitializerRange = None,
    tie_word_embeddings: Tied = False,
) -> LengthwiseConfig:
    """A Transformer like GPT-2, or like LLaMA, with the positions of your choice."""
    llama = block == "llama"
    if llama and (norm, activation) != ("pre", "gelu"):
        raise Error(
            f"transformer: LLaMA's block is pre-norm with SwiGLU, got norm {norm!r} and activation {activation!r}. "
            'Leave both out, or take block="gpt2".'
        )
    mixer = {
        "name": "softmax",
        "heads": heads,
        **({"biases": False} if llama else {}),
        # Left out where it is off: a config of before has none.
        **({} if log_scale is None else {"log_scale": log_scale}),
        **({"qk_norm": True} if qk_norm else {}),
    }
    return LengthwiseConfig(
        vocab_size=vocab_size,
        num_outputs=num_outputs,
        width=width,
        mixer=mixer if window is None else [_windowed(mixer, window, i) for i in range(layers)],
        position=encoding(position, position_options, max_length),
        depth={"name": "fixed", "layers": layers},
        block={
            "kind": "transformer",
            "norm": norm,
            "activation": activation,
            "expansion": expansion,
            **({"activation": "swiglu", "biases": False, "normalisation": "rms"} if llama else {}),
        },
        final_norm=norm == "pre",
        head_bias=not llama,
        dropout=dropout,
        initializer_range=initializer_range,
        # A tied head reads logits off the embedding itself, whose entries must then be small.
        embedding_scale=width**0.5 if tie_word_embeddings else 1.0,
        tie_word_embeddings=tie_word_embeddings,
    )


def _windowed(mixer: dict[str, Any], window: int, layer: int) -> dict[str, Any]:
    """RNoPE-SWA (Yang et al. 2025): three layers near and with positions, then one that is far and without."""
    return {**mixer, "positioned": False} if layer % 4 == 3 else {**mixer, "window": window}


def encoding(
    name: str, options: dict[str, Any] | None, max_length: int, ends: int | list[int] | None = None
) -> dict[str, Any]:
    """The `position` of a config; with `ends` it is BiPE's, and this encoding is that of the segments' numbers."""
    rows = {"rows": max_length} if "rows" in positions.options(name) else {}
    own = {"name": name, **rows, **(options or {})}
    if ends is None:
        return own
    return {"name": "bilevel", "inside": {"name": "learned", "rows": max_length}, "between": own, "ends": ends}


def chacal(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    layers: Layers = 2,
    chain_layers: Annotated[
        Literal["last", "all"] | list[int],
        "Which layers have chain attention; numbers count from 0, negative ones from the last.",
    ] = "last",
    gamma: Annotated[
        float | list[float], "How much a reference passes on, at least 0 and below 1; a number, or one for each head."
    ] = 0.9,
    learn_gamma: Annotated[bool, "Whether gamma is trained, from where it starts."] = False,
    exclude_diagonal: Annotated[bool, "Whether no token may refer to itself."] = True,
    paths: Annotated[
        Literal["mean", "sum"], "How paths of all lengths are joined: their mean (the paper), or their sum."
    ] = "mean",
    position: Annotated[PositionName, "How tokens know where they are."] = "learned",
    initializer_range: InitializerRange = 0.02,
    **shared: Annotated[Any, OptionsOf(transformer, f"{SIZES} max_length norm activation")],
) -> LengthwiseConfig:
    """ChaCAL: a GPT-2-like Transformer some of whose layers follow whole chains of references at once.

    Only the last layer does so in the paper, with the mean of the paths; their sum learns faster (see the mixer). All
    else is `transformer(position="learned", initializer_range=0.02)`, its baseline, with as many parameters: weights
    begin small as in GPT-2, for with embeddings of unit variance references take three times the steps to be found.
    """
    config = transformer(
        vocab_size, num_outputs, layers=layers, position=position, initializer_range=initializer_range, **shared
    )
    chain = {
        "name": "chain",
        "heads": config.heads,
        "gamma": gamma,
        "learn_gamma": learn_gamma,
        "exclude_diagonal": exclude_diagonal,
        "paths": paths,
    }
    chosen = layer_numbers("chacal: chain_layers", chain_layers, layers)
    config.mixer = [chain if i in chosen else {"name": "softmax", "heads": config.heads} for i in range(layers)]
    return config


def layer_numbers(what: str, choice: str | Sequence[int], layers: int) -> list[int]:
    """The numbers of "all" layers, of the "last", or of those listed, negative ones counted from the last.

    >>> layer_numbers("layers", "last", 3), layer_numbers("layers", [-1, 0], 3)
    ([2], [0, 2])
    """
    if isinstance(choice, str):
        named = {"all": list(range(layers)), "last": [layers - 1]}
        if choice not in named:
            raise UnknownName(what, choice, named)
        return named[choice]
    if not isinstance(choice, Sequence):
        raise Error(f'{what} is "all", "last" or a list of layers, got {choice!r}.')
    numbers = sorted({i % layers for i in choice if -layers <= i < layers})
    if not choice or len(numbers) != len(choice):
        raise Error(
            f"{what} must name different layers of 0 to {layers - 1}, at least one, got {list(choice)}. "
            'Or say "all" or "last".'
        )
    return numbers


def transformer_xl(
    vocab_size: int,
    num_outputs: int | None = None,
    **shared: Annotated[Any, OptionsOf(transformer, "width heads layers")],
) -> LengthwiseConfig:
    """A Transformer with Transformer-XL's relative positions, RegularGPT's baseline."""
    return transformer(vocab_size, num_outputs, position="transformer-xl", **shared)
