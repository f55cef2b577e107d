"""Models by the name their papers gave them: each preset is a function returning a `LengthwiseConfig`.

>>> regular_gpt(vocab_size=2, width=32, heads=4).depth
{'name': 'adaptive', 'chunk': 2, 'thickness': 1, 'by': 'sequence', 'pad_tokens': False}
"""

from __future__ import annotations

from typing import Any, Literal

from ..errors import Error, UnknownName
from .config import LengthwiseConfig

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
    width: int = 64,
    heads: int = 8,
    chunk: int = 2,
    largest_chunk: int | None = None,
    thickness: int = 1,
    depth: Literal["sequence", "position"] = "sequence",
    variant: Variant = "lengthwise",
    missing: Literal["learned-pad", "drop", "official"] | None = None,
    norm: Literal["pre", "post"] | None = None,
    activation: Literal["gelu", "relu"] | None = None,
    biases: bool | None = None,
    embedding_scale: float | None = None,
    expansion: int = 4,
    dropout: float = 0.0,
    tie_word_embeddings: bool = False,
) -> LengthwiseConfig:
    """RegularGPT: shared layers of sliding-dilated attention, as many groups as the length asks for.

    `variant` settles what is None: "paper" is the GPT-2 block of the text; "official" the network of the released code
    (post-norm, ReLU, no biases in the attention, embeddings times sqrt(width), its own reading of padding, the last
    position alone); "lengthwise" is post-norm too, since that keeps every group's output at one scale, and so is what
    holds at depths never seen in training: after 500 steps of PARITY at lengths 1 to 40, pre-norm is right on 80 to
    95% of strings of 41 to 500, post-norm on all.

    `largest_chunk`: let training choose the chunk, from `chunk` to this one (models/chosen.py).
    `depth`: by "sequence" (the paper) or by "position" (causal outputs, a cache when decoding): see models/depth.py.
    """
    if variant not in VARIANTS:
        raise UnknownName("variant of regular-gpt", variant, VARIANTS)
    usual = VARIANTS[variant]
    chunks = [chunk] if largest_chunk is None else list(range(chunk, largest_chunk + 1))
    if not chunks:
        raise Error(f"regular-gpt: largest_chunk must be at least chunk = {chunk}, got {largest_chunk}.")
    missing, norm = missing or usual["missing"], norm or usual["norm"]
    # A tied head reads logits off the embedding itself, whose entries must then be small.
    scale = width**0.5 if tie_word_embeddings or variant == "official" else 1.0
    return LengthwiseConfig(
        vocab_size=vocab_size,
        num_outputs=num_outputs,
        width=width,
        mixer={
            "name": "sliding-dilated",
            "heads": heads,
            "chunk": chunks[-1],
            "missing": "drop" if missing == "official" else missing,
            "shared_pad": True,
            "biases": usual["biases"] if biases is None else biases,
        },
        depth={
            "name": "adaptive",
            "chunk": chunk if len(chunks) == 1 else chunks,
            "thickness": thickness,
            "by": depth,
            "pad_tokens": missing == "official",
        },
        block={"norm": norm, "activation": activation or usual["activation"], "expansion": expansion},
        final_norm=norm == "pre",
        dropout=dropout,
        embedding_scale=scale if embedding_scale is None else embedding_scale,
        tie_word_embeddings=tie_word_embeddings,
    )


def transformer(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    width: int = 64,
    heads: int = 8,
    layers: int = 5,
    position: Literal["sinusoidal", "none", "learned", "transformer-xl"] = "sinusoidal",
    norm: Literal["pre", "post"] = "pre",
    activation: Literal["gelu", "relu"] = "gelu",
    expansion: int = 4,
    dropout: float = 0.0,
    tie_word_embeddings: bool = False,
) -> LengthwiseConfig:
    """A GPT-2-like Transformer with the positions of your choice."""
    return LengthwiseConfig(
        vocab_size=vocab_size,
        num_outputs=num_outputs,
        width=width,
        mixer={"name": "softmax", "heads": heads},
        position={"name": position},
        depth={"name": "fixed", "layers": layers},
        block={"norm": norm, "activation": activation, "expansion": expansion},
        final_norm=norm == "pre",
        dropout=dropout,
        # A tied head reads logits off the embedding itself, whose entries must then be small.
        embedding_scale=width**0.5 if tie_word_embeddings else 1.0,
        tie_word_embeddings=tie_word_embeddings,
    )


def transformer_xl(
    vocab_size: int, num_outputs: int | None = None, *, width: int = 64, heads: int = 8, layers: int = 5
) -> LengthwiseConfig:
    """A Transformer with Transformer-XL's relative positions, RegularGPT's baseline."""
    return transformer(vocab_size, num_outputs, width=width, heads=heads, layers=layers, position="transformer-xl")


def _recurrent(cell: str, vocab_size: int, num_outputs: int | None, width: int, layers: int, dropout: float):
    return LengthwiseConfig(
        vocab_size=vocab_size,
        num_outputs=num_outputs,
        width=width,
        mixer={"name": cell},
        depth={"name": "fixed", "layers": layers},
        block={"kind": "bare"},
        final_norm=False,
        dropout=dropout,
    )


def rnn(
    vocab_size: int, num_outputs: int | None = None, *, width: int = 64, layers: int = 1, dropout: float = 0.0
) -> LengthwiseConfig:
    """A recurrent network with tanh."""
    return _recurrent("rnn", vocab_size, num_outputs, width, layers, dropout)


def lstm(
    vocab_size: int, num_outputs: int | None = None, *, width: int = 64, layers: int = 1, dropout: float = 0.0
) -> LengthwiseConfig:
    """A long short-term memory."""
    return _recurrent("lstm", vocab_size, num_outputs, width, layers, dropout)


def gru(
    vocab_size: int, num_outputs: int | None = None, *, width: int = 64, layers: int = 1, dropout: float = 0.0
) -> LengthwiseConfig:
    """A gated recurrent unit."""
    return _recurrent("gru", vocab_size, num_outputs, width, layers, dropout)


PRESETS: dict[str, Any] = {
    "regular-gpt": regular_gpt,
    "transformer": transformer,
    "transformer-xl": transformer_xl,
    "rnn": rnn,
    "lstm": lstm,
    "gru": gru,
}
