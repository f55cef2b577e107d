"""Mixers and configs of which a test says only what it is about: the other options are these."""

from math import pi
from typing import Any

from lengthwise import mixers
from lengthwise.models import LengthwiseConfig

STEPS = {"step_min": 1e-3, "step_max": 0.1, "output": "glu"}
USUAL: dict[str, dict[str, Any]] = {
    "softmax": {"heads": 8},
    "forgetting": {"heads": 8},
    "chain": {"heads": 8, "gamma": 0.9, "exclude_diagonal": True, "paths": "mean"},
    "stick-breaking": {"heads": 8, "current": False, "remainder": True},
    "path": {"heads": 8},
    "cope": {"heads": 8, "rows": 64},
    "sliding-dilated": {"heads": 8, "chunk": 2, "missing": "learned-pad", "biases": True},
    "block-lrnn": {
        "transition": "two-layer",
        "inputs": "two-layer",
        "normalisation": "paper",
        "p": 1.2,
        "learned_initial": True,
        "readout": "linear",
    },
    "s4": {"state": 64, **STEPS},
    "s4d": {"state": 64, "initial": "lin", "discretisation": "zoh", **STEPS},
    "liquid-s4": {"state": 64, "kernel": "pb", "order": 2, **STEPS},
    "lru": {"state": 64, "r_min": 0.0, "r_max": 1.0, "phase": 2 * pi, "output": "glu"},
    "diagonal-lrnn": {"state": 64, "numbers": "complex", "output": "glu"},
    "pd-ssm": {"state": None, "matrices": 8, "one_hot": "columns"},
    "delta-product": {"heads": 4, "steps": 2, "values": 2, "negative": True, "gated": True},
}


def mixer(name: str, *, width: int, **options: Any) -> mixers.Mixer:
    return mixers.get(name, width=width, **{**USUAL.get(name, {}), **options})


DEPTHS: dict[str, dict[str, Any]] = {
    "fixed": {"layers": 5},
    "adaptive": {"chunk": 2, "thickness": 1, "by": "sequence"},
}
BLOCK = {"kind": "transformer", "norm": "pre", "activation": "gelu", "expansion": 4}


def config(**fields: Any) -> LengthwiseConfig:
    """The config of a whole model: softmax attention in five layers, but for what these fields say."""

    def usual(spec: dict[str, Any], known: dict[str, dict[str, Any]]) -> dict[str, Any]:
        return {**known.get(spec.get("name", ""), {}), **spec}

    mixer, block = fields.get("mixer", {"name": "softmax"}), fields.get("block", {})
    filled = {
        "mixer": [usual(spec, USUAL) for spec in mixer] if isinstance(mixer, list) else usual(mixer, USUAL),
        "depth": usual(fields.get("depth", {"name": "fixed"}), DEPTHS),
        "block": block if isinstance(block, list) or "kind" in block else {**BLOCK, **block},
    }
    return LengthwiseConfig(**{"width": 64, **fields, **filled})
