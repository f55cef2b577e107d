"""Presets whose layers are linear recurrences.

>>> block_lrnn(vocab_size=5, width=32, layers=2).block
[{'kind': 'residual'}, {'kind': 'normed'}]
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ...errors import UnknownName
from ...options import at_least
from ..config import LengthwiseConfig
from .shared_options import Dropout, Expansion, Heads, Initialisation, Layers, Width

RELEASED = {
    "normalisation": "official",
    "transition": "two-layer",
    "inputs": "two-layer",
    "learned_initial": True,
    "readout": "identity",
    "residual": "inner",
    "head": "two-layer",
}
VARIANTS: dict[str, dict[str, Any]] = {
    "lengthwise": {**RELEASED, "normalisation": "paper"},
    "paper": {
        "normalisation": "paper",
        "transition": "linear",
        "inputs": "linear",
        "learned_initial": False,
        "readout": "linear",
        "residual": "bare",
        "head": "linear",
    },
    "official": RELEASED,
    "automaton": {**RELEASED, "normalisation": "one-hot", "inputs": "none"},
}


def block_lrnn(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    width: Width = 64,
    layers: Layers = 1,
    blocks: Annotated[
        int | None, at_least(1), "How many blocks a transition has; None: as many as fill the width."
    ] = None,
    block: Annotated[
        int | None, at_least(1), "How wide a block is; None: 8, or the width divided by the number of blocks."
    ] = None,
    variant: Annotated[
        Literal["lengthwise", "paper", "official", "automaton"],
        "Whose network it is; sets the options that are None.",
    ] = "lengthwise",
    normalisation: Annotated[
        Literal["paper", "official", "orthogonal", "one-hot", "none"] | None,
        "What keeps products of blocks bounded (mixers/transitions.py).",
    ] = None,
    p: Annotated[
        float,
        at_least(1, at_most=float("inf")),
        "The norm that bounds a block's columns: 1 is the strictest bound, infinity the mildest.",
    ] = 1.2,
    transition: Annotated[Literal["linear", "two-layer"] | None, "The network from a token to its transition."] = None,
    inputs: Annotated[
        Literal["linear", "two-layer", "none"] | None, "The network from a token to what it adds to the state."
    ] = None,
    learned_initial: Annotated[bool | None, "Whether the first state is learned; otherwise it is 0."] = None,
    readout: Annotated[
        Literal["linear", "identity"] | None, "What the layer gives out: a map of the state, or the state itself."
    ] = None,
    residual: Annotated[
        Literal["all", "inner", "bare"] | None,
        "Which layers are x + mixer(norm(x)): all, all but the last (inner), or none, without a norm (bare).",
    ] = None,
    head: Annotated[Literal["linear", "two-layer"] | None, "What stands between the last layer and the logits."] = None,
    initialisation: Initialisation = "lengthwise",
    dropout: Dropout = 0.0,
) -> LengthwiseConfig:
    """Block-diagonal input-dependent linear RNN: a linear recurrence whose transitions the tokens choose.

    `variant` settles what is None. "paper" is eq. 1, 5 and 6 and nothing else: x_0 = 0, B u_t, every map linear.
    "official" is the network of the released code: two-layer networks with ReLU, normalised columns scaled up too, a
    learned x_0, y_t = x_t, pre-norm and no residual around the last layer, a head of norm, linear, ReLU, linear. Where
    that is not known to us it is the plainest: biases on every map, hidden layers of the inputs and the head
    as wide as the model, nothing between the layers, embeddings of unit variance. "lengthwise" has the paper's bound.
    "automaton" cannot drift: its blocks are functions on b states, learned as such (mixers/transitions.py; one-hot
    columns are the P of PD-SSM, Terzić et al. 2025), so that a first layer which is right at all the states it can
    reach is right at every length. After 500 steps on sums modulo 5 at length 40 it is right on all strings of 10,000,
    where the others guess.
    """
    if variant not in VARIANTS:
        raise UnknownName("variant of block-lrnn", variant, VARIANTS)
    given = {
        "normalisation": normalisation,
        "transition": transition,
        "inputs": inputs,
        "learned_initial": learned_initial,
        "readout": readout,
        "residual": residual,
        "head": head,
    }
    chosen = {**VARIANTS[variant], **{name: value for name, value in given.items() if value is not None}}
    around, last = chosen.pop("residual"), chosen.pop("head")
    kinds = {
        "all": ["residual"] * layers,
        "inner": ["residual"] * (layers - 1) + ["normed"],
        "bare": ["bare"] * layers,
    }
    if around not in kinds:
        raise UnknownName("residual of block-lrnn", around, kinds)
    return LengthwiseConfig(
        vocab_size=vocab_size,
        num_outputs=num_outputs,
        width=width,
        mixer={"name": "block-lrnn", "blocks": blocks, "block": block, "p": p, **chosen},
        depth={"name": "fixed", "layers": layers},
        block=[{"kind": kind} for kind in kinds[around]],
        final_norm=around != "bare",
        head=last,
        initialisation={"linear": "torch", "initial": 1.0} if initialisation == "official" else None,
        dropout=dropout,
    )


def pd_ssm(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    width: Width = 64,
    layers: Layers = 2,
    state: Annotated[int | None, at_least(1), "How many complex numbers the state has; None: the width."] = None,
    matrices: Annotated[int, at_least(1), "How many matrices tokens mix their transitions of."] = 8,
    one_hot: Annotated[
        Literal["columns", "rows"],
        "Which lines of a transition have a single entry: the paper's columns, or the rows of its released code.",
    ] = "columns",
    dropout: Dropout = 0.0,
) -> LengthwiseConfig:
    """PD-SSM: transitions are one-hot columns times a complex diagonal, which the tokens choose."""
    return LengthwiseConfig(
        vocab_size=vocab_size,
        num_outputs=num_outputs,
        width=width,
        mixer={"name": "pd-ssm", "state": state, "matrices": matrices, "one_hot": one_hot},
        depth={"name": "fixed", "layers": layers},
        block={"kind": "bare"},
        final_norm=False,
        initialisation={"linear": "torch"},
        dropout=dropout,
    )


def delta_product(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    width: Width = 64,
    heads: Heads = 4,
    layers: Layers = 1,
    steps: Annotated[
        int, at_least(1), "How many reflections, or parts of them, a token makes; 1: (gated) DeltaNet."
    ] = 2,
    negative: Annotated[bool, "Whether a step may turn its direction over: eigenvalues from -1, not 0, to 1."] = True,
    gated: Annotated[bool, "Whether a token may let all that the state holds fade."] = True,
    values: Annotated[int, at_least(1), "How many times as wide as a key a value is."] = 2,
    expansion: Expansion = 4,
    dropout: Dropout = 0.0,
) -> LengthwiseConfig:
    """Gated DeltaProduct: a matrix of values by keys, reflected along several keys a token."""
    return LengthwiseConfig(
        vocab_size=vocab_size,
        num_outputs=num_outputs,
        width=width,
        mixer={
            "name": "delta-product",
            "heads": heads,
            "steps": steps,
            "values": values,
            "negative": negative,
            "gated": gated,
        },
        depth={"name": "fixed", "layers": layers},
        block={
            "kind": "transformer",
            "norm": "pre",
            "activation": "swiglu",
            "expansion": expansion,
            "biases": False,
            "normalisation": "rms",
        },
        head_bias=False,
        dropout=dropout,
    )
