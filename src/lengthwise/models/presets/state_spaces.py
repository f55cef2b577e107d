"""Presets whose layers are state spaces: x + mixer(norm(x)), the mixer with its activation and output map inside.

>>> s4d(vocab_size=5, initial="inv", layers=2).mixer["initial"]
'inv'
"""

from __future__ import annotations

from math import pi
from typing import Any, Literal

from ..config import LengthwiseConfig

Output = Literal["glu", "linear", "none"]


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
    width: int = 64,
    layers: int = 1,
    state: int = 64,
    step_min: float = 1e-3,
    step_max: float = 0.1,
    output: Output = "glu",
    dropout: float = 0.0,
) -> LengthwiseConfig:
    """S4: state spaces that begin as HiPPO-LegS, diagonal plus rank one, trained as convolutions.

    `step_min`, `step_max`: between them the channels' step sizes start; a channel remembers about 1/step tokens.
    """
    mixer = {"name": "s4", "state": state, "step_min": step_min, "step_max": step_max, "output": output}
    return _residual(vocab_size, num_outputs, width, layers, dropout, mixer)


def s4d(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    width: int = 64,
    layers: int = 1,
    state: int = 64,
    initial: Literal["lin", "inv", "legs"] = "lin",
    discretisation: Literal["zoh", "bilinear"] = "zoh",
    step_min: float = 1e-3,
    step_max: float = 0.1,
    output: Output = "glu",
    dropout: float = 0.0,
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
    width: int = 64,
    layers: int = 1,
    state: int = 64,
    kernel: Literal["pb", "kb", "exact"] = "pb",
    order: int = 2,
    step_min: float = 1e-3,
    step_max: float = 0.1,
    output: Output = "glu",
    dropout: float = 0.0,
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
    width: int = 64,
    layers: int = 1,
    state: int = 64,
    r_min: float = 0.0,
    r_max: float = 1.0,
    phase: float = 2 * pi,
    output: Output = "glu",
    dropout: float = 0.0,
) -> LengthwiseConfig:
    """LRU: one complex diagonal recurrence for all channels, which starts on the ring from `r_min` to `r_max`."""
    mixer = {"name": "lru", "state": state, "r_min": r_min, "r_max": r_max, "phase": phase, "output": output}
    return _residual(vocab_size, num_outputs, width, layers, dropout, mixer)


def diagonal_lrnn(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    width: int = 64,
    layers: int = 1,
    state: int = 64,
    numbers: Literal["complex", "real"] = "complex",
    output: Output = "glu",
    dropout: float = 0.0,
) -> LengthwiseConfig:
    """Diagonal input-dependent linear RNN: tokens choose the transitions, which commute."""
    mixer = {"name": "diagonal-lrnn", "state": state, "numbers": numbers, "output": output}
    return _residual(vocab_size, num_outputs, width, layers, dropout, mixer)
