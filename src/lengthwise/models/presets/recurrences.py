"""Presets whose layers are recurrences: torch's own, linear ones whose transitions tokens choose, and state spaces.

>>> lstm(vocab_size=2, width=32).mixer
{'name': 'lstm'}
>>> block_lrnn(vocab_size=5, width=32, layers=2).block
[{'kind': 'residual'}, {'kind': 'normed'}]
"""

from __future__ import annotations

from math import pi
from typing import Annotated, Any, Literal

from ...errors import UnknownName
from ...limits import STATE
from ...options import OptionsOf, above, at_least
from ..config import LengthwiseConfig
from .shared_options import Dropout, Expansion, Heads, Initialisation, Layers, Width

State = Annotated[int, at_least(1, at_most=STATE), "How many numbers each state has."]
Output = Annotated[Literal["glu", "linear", "none"], "The map behind the recurrence: gated, linear, or none."]


def _stack(
    vocab_size: int,
    num_outputs: int | None,
    mixer: dict[str, Any],
    block: dict[str, Any] | list[dict[str, Any]],
    *,
    width: Width = 64,
    layers: Layers = 1,
    dropout: Dropout = 0.0,
    **fields: Any,
) -> LengthwiseConfig:
    """Layers around a mixer, and other fields of the config."""
    return LengthwiseConfig(
        vocab_size=vocab_size,
        num_outputs=num_outputs,
        width=width,
        mixer=mixer,
        depth={"name": "fixed", "layers": layers},
        block=block,
        dropout=dropout,
        **fields,
    )


Shared = Annotated[Any, OptionsOf(_stack)]


def rnn(vocab_size: int, num_outputs: int | None = None, **shared: Shared) -> LengthwiseConfig:
    """A recurrent network with tanh."""
    return _stack(vocab_size, num_outputs, {"name": "rnn"}, {"kind": "bare"}, final_norm=False, **shared)


def lstm(vocab_size: int, num_outputs: int | None = None, **shared: Shared) -> LengthwiseConfig:
    """A long short-term memory."""
    return _stack(vocab_size, num_outputs, {"name": "lstm"}, {"kind": "bare"}, final_norm=False, **shared)


def gru(vocab_size: int, num_outputs: int | None = None, **shared: Shared) -> LengthwiseConfig:
    """A gated recurrent unit."""
    return _stack(vocab_size, num_outputs, {"name": "gru"}, {"kind": "bare"}, final_norm=False, **shared)


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
    **shared: Annotated[Any, OptionsOf(_stack, "width dropout")],
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
    values = {
        "normalisation": normalisation,
        "transition": transition,
        "inputs": inputs,
        "learned_initial": learned_initial,
        "readout": readout,
        "residual": residual,
        "head": head,
    }
    chosen = {**VARIANTS[variant], **{name: value for name, value in values.items() if value is not None}}
    around, last = chosen.pop("residual"), chosen.pop("head")
    kinds = {
        "all": ["residual"] * layers,
        "inner": ["residual"] * (layers - 1) + ["normed"],
        "bare": ["bare"] * layers,
    }
    if around not in kinds:
        raise UnknownName("residual of block-lrnn", around, kinds)
    return _stack(
        vocab_size,
        num_outputs,
        {"name": "block-lrnn", "blocks": blocks, "block": block, "p": p, **chosen},
        [{"kind": kind} for kind in kinds[around]],
        layers=layers,
        final_norm=around != "bare",
        head=last,
        initialisation={"linear": "torch", "initial": 1.0} if initialisation == "official" else None,
        **shared,
    )


def pd_ssm(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    layers: Layers = 2,
    state: Annotated[int | None, at_least(1), "How many complex numbers the state has; None: the width."] = None,
    matrices: Annotated[int, at_least(1), "How many matrices tokens mix their transitions of."] = 8,
    one_hot: Annotated[
        Literal["columns", "rows"],
        "Which lines of a transition have a single entry: the paper's columns, or the rows of its released code.",
    ] = "columns",
    **shared: Annotated[Any, OptionsOf(_stack, "width dropout")],
) -> LengthwiseConfig:
    """PD-SSM: transitions are one-hot columns times a complex diagonal, which the tokens choose."""
    mixer = {"name": "pd-ssm", "state": state, "matrices": matrices, "one_hot": one_hot}
    fields = {"layers": layers, "final_norm": False, "initialisation": {"linear": "torch"}}
    return _stack(vocab_size, num_outputs, mixer, {"kind": "bare"}, **fields, **shared)


def delta_product(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    heads: Heads = 4,
    steps: Annotated[
        int, at_least(1), "How many reflections, or parts of them, a token makes; 1: (gated) DeltaNet."
    ] = 2,
    negative: Annotated[bool, "Whether a step may turn its direction over: eigenvalues from -1, not 0, to 1."] = True,
    gated: Annotated[bool, "Whether a token may let all that the state holds fade."] = True,
    values: Annotated[int, at_least(1), "How many times as wide as a key a value is."] = 2,
    expansion: Expansion = 4,
    **shared: Shared,
) -> LengthwiseConfig:
    """Gated DeltaProduct: a matrix of values by keys, reflected along several keys a token."""
    mixer = {"heads": heads, "steps": steps, "values": values, "negative": negative, "gated": gated}
    llama = {"activation": "swiglu", "expansion": expansion, "biases": False, "normalisation": "rms"}
    block = {"kind": "transformer", "norm": "pre", **llama}
    return _stack(vocab_size, num_outputs, {"name": "delta-product", **mixer}, block, head_bias=False, **shared)


def _convolved(
    vocab_size: int,
    num_outputs: int | None,
    mixer: dict[str, Any],
    *,
    state: State = 64,
    step_min: Annotated[
        float, above(0), "The smallest step size a channel starts with; it remembers about 1/step tokens."
    ] = 1e-3,
    step_max: Annotated[float, above(0), "The largest step size a channel starts with."] = 0.1,
    output: Output = "glu",
    **shared: Shared,
) -> LengthwiseConfig:
    """State spaces trained as convolutions: x + mixer(norm(x)), the mixer with its activation and output map inside."""
    mixer = {**mixer, "state": state, "step_min": step_min, "step_max": step_max, "output": output}
    return _stack(vocab_size, num_outputs, mixer, {"kind": "residual"}, **shared)


Convolved = Annotated[Any, OptionsOf(_convolved)]


def s4(vocab_size: int, num_outputs: int | None = None, **shared: Convolved) -> LengthwiseConfig:
    """S4: state spaces that begin as HiPPO-LegS, diagonal plus rank one, trained as convolutions."""
    return _convolved(vocab_size, num_outputs, {"name": "s4"}, **shared)


def s4d(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    initial: Annotated[
        Literal["lin", "inv", "legs"], "Which eigenvalues the states begin with (mixers/state_space/hippo.py)."
    ] = "lin",
    discretisation: Annotated[
        Literal["zoh", "bilinear"], "How the continuous system becomes one step: zero-order hold, or bilinear."
    ] = "zoh",
    **shared: Convolved,
) -> LengthwiseConfig:
    """S4D: diagonal state spaces, trained as convolutions."""
    mixer = {"name": "s4d", "initial": initial, "discretisation": discretisation}
    return _convolved(vocab_size, num_outputs, mixer, **shared)


def liquid_s4(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    kernel: Annotated[
        Literal["pb", "kb", "exact"], "Which products of inputs are kept; exact: all, by recurrence."
    ] = "pb",
    order: Annotated[int, at_least(2), "How many inputs a product has at most, for the kernels pb and kb."] = 2,
    **shared: Convolved,
) -> LengthwiseConfig:
    """Liquid-S4: S4 with a kernel over products of up to `order` consecutive inputs, or its exact recurrence."""
    return _convolved(vocab_size, num_outputs, {"name": "liquid-s4", "kernel": kernel, "order": order}, **shared)


def lru(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    state: State = 64,
    r_min: Annotated[float, at_least(0, at_most=1), "The smallest radius on which eigenvalues start."] = 0.0,
    r_max: Annotated[
        float, at_least(0, at_most=1), "The largest radius on which eigenvalues start; near 1 they remember longer."
    ] = 1.0,
    phase: Annotated[float, above(0), "The largest angle at which eigenvalues start, at most 2π."] = 2 * pi,
    output: Output = "glu",
    **shared: Shared,
) -> LengthwiseConfig:
    """LRU: one complex diagonal recurrence for all channels, which starts on the ring from `r_min` to `r_max`."""
    mixer = {"name": "lru", "state": state, "r_min": r_min, "r_max": r_max, "phase": phase, "output": output}
    return _stack(vocab_size, num_outputs, mixer, {"kind": "residual"}, **shared)


def diagonal_lrnn(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    state: State = 64,
    numbers: Annotated[Literal["complex", "real"], "Whether transitions are complex or real numbers."] = "complex",
    output: Output = "glu",
    **shared: Shared,
) -> LengthwiseConfig:
    """Diagonal input-dependent linear RNN: tokens choose the transitions, which commute."""
    mixer = {"name": "diagonal-lrnn", "state": state, "numbers": numbers, "output": output}
    return _stack(vocab_size, num_outputs, mixer, {"kind": "residual"}, **shared)
