"""Presets whose layers are state spaces: x + mixer(norm(x)), the mixer with its activation and output map inside.

>>> s4d(vocab_size=5, initial="inv", layers=2).mixer["initial"]
'inv'
"""

from __future__ import annotations

from math import pi
from typing import Annotated, Any, Literal

from ...options import above, at_least
from ..config import LengthwiseConfig
from .shared_options import Dropout, Layers, Output, State, StepMax, StepMin, Width


def _residual(
    vocab_size: int, num_outputs: int | None, width: int, layers: int, dropout: float, mixer: dict[str, Any]
) -> LengthwiseConfig:
    return LengthwiseConfig(
        vocab_size=vocab_size,
        num_outputs=num_outputs,
        width=width,
        mixer=mixer,
        depth={"name": "fixed", "layers": layers},
        block={"kind": "residual"},
        dropout=dropout,
    )


def s4(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    width: Width = 64,
    layers: Layers = 1,
    state: State = 64,
    step_min: StepMin = 1e-3,
    step_max: StepMax = 0.1,
    output: Output = "glu",
    dropout: Dropout = 0.0,
) -> LengthwiseConfig:
    """S4: state spaces that begin as HiPPO-LegS, diagonal plus rank one, trained as convolutions."""
    mixer = {"name": "s4", "state": state, "step_min": step_min, "step_max": step_max, "output": output}
    return _residual(vocab_size, num_outputs, width, layers, dropout, mixer)


def s4d(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    width: Width = 64,
    layers: Layers = 1,
    state: State = 64,
    initial: Annotated[
        Literal["lin", "inv", "legs"], "Which eigenvalues the states begin with (mixers/state_space/hippo.py)."
    ] = "lin",
    discretisation: Annotated[
        Literal["zoh", "bilinear"], "How the continuous system becomes one step: zero-order hold, or bilinear."
    ] = "zoh",
    step_min: StepMin = 1e-3,
    step_max: StepMax = 0.1,
    output: Output = "glu",
    dropout: Dropout = 0.0,
) -> LengthwiseConfig:
    """S4D: diagonal state spaces, trained as convolutions."""
    mixer = {
        "name": "s4d",
        "state": state,
        "initial": initial,
        "discretisation": discretisation,
        "step_min": step_min,
        "step_max": step_max,
        "output": output,
    }
    return _residual(vocab_size, num_outputs, width, layers, dropout, mixer)


def liquid_s4(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    width: Width = 64,
    layers: Layers = 1,
    state: State = 64,
    kernel: Annotated[
        Literal["pb", "kb", "exact"], "Which products of inputs are kept; exact: all, by recurrence."
    ] = "pb",
    order: Annotated[int, at_least(2), "How many inputs a product has at most, for the kernels pb and kb."] = 2,
    step_min: StepMin = 1e-3,
    step_max: StepMax = 0.1,
    output: Output = "glu",
    dropout: Dropout = 0.0,
) -> LengthwiseConfig:
    """Liquid-S4: S4 with a kernel over products of up to `order` consecutive inputs, or its exact recurrence."""
    mixer = {
        "name": "liquid-s4",
        "state": state,
        "kernel": kernel,
        "order": order,
        "step_min": step_min,
        "step_max": step_max,
        "output": output,
    }
    return _residual(vocab_size, num_outputs, width, layers, dropout, mixer)


def lru(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    width: Width = 64,
    layers: Layers = 1,
    state: State = 64,
    r_min: Annotated[float, at_least(0, at_most=1), "The smallest radius on which eigenvalues start."] = 0.0,
    r_max: Annotated[
        float, at_least(0, at_most=1), "The largest radius on which eigenvalues start; near 1 they remember longer."
    ] = 1.0,
    phase: Annotated[float, above(0), "The largest angle at which eigenvalues start, at most 2π."] = 2 * pi,
    output: Output = "glu",
    dropout: Dropout = 0.0,
) -> LengthwiseConfig:
    """LRU: one complex diagonal recurrence for all channels, which starts on the ring from `r_min` to `r_max`."""
    mixer = {"name": "lru", "state": state, "r_min": r_min, "r_max": r_max, "phase": phase, "output": output}
    return _residual(vocab_size, num_outputs, width, layers, dropout, mixer)


def diagonal_lrnn(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    width: Width = 64,
    layers: Layers = 1,
    state: State = 64,
    numbers: Annotated[Literal["complex", "real"], "Whether transitions are complex or real numbers."] = "complex",
    output: Output = "glu",
    dropout: Dropout = 0.0,
) -> LengthwiseConfig:
    """Diagonal input-dependent linear RNN: tokens choose the transitions, which commute."""
    mixer = {"name": "diagonal-lrnn", "state": state, "numbers": numbers, "output": output}
    return _residual(vocab_size, num_outputs, width, layers, dropout, mixer)
