"""How to train, as data: lengths, optimiser, checkpoints; part of every experiment.

Everything is JSON-like and frozen. Whoever changes a default must raise `SCHEMA` in `lab/experiment.py`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

from ..errors import Error


def _at_least_one(part: Any, *names: str) -> None:
    for name in names:
        if (n := getattr(part, name)) is not None and n < 1:
            raise Error(f"training.{name} must be at least 1, got {n}.")


def _one_of(part: Any, name: str, called: str = "") -> None:
    allowed = get_args(get_type_hints(type(part))[name])
    if (choice := getattr(part, name)) not in allowed:
        raise Error(f"{called or f'training.{name}'} is one of {', '.join(allowed)}, got {choice!r}.")


@dataclass(frozen=True)
class Curriculum:
    """Which lengths are trained, in which order; possible ones in `lengths[0]..lengths[1]`."""

    kind: Literal["uniform", "log-uniform", "growing"] = "uniform"
    lengths: tuple[int, int] = (1, 40)
    grow_from: int = 4
    """growing: the longest length at first, raised by one possible length when `grow_at` of the longest is right."""
    grow_at: float = 0.985
    shrink_at: float = 0.0
    """growing: the longest length falls by one when less than this share is right at it; 0: never."""

    def __post_init__(self):
        low, high = self.lengths
        if not 1 <= low <= high:
            raise Error(f"training.lengths must be LOW,HIGH with 1 <= LOW <= HIGH, got {low},{high}.")
        _at_least_one(self, "grow_from")
        if not 0 < self.grow_at <= 1:
            raise Error(f"training.grow_at must be above 0 and at most 1, got {self.grow_at}.")
        if not 0 <= self.shrink_at < self.grow_at:
            raise Error(
                f"training.shrink_at must be at least 0 and below training.grow_at ({self.grow_at}), "
                f"got {self.shrink_at}."
            )
        _one_of(self, "kind", "training.curriculum")


@dataclass(frozen=True)
class Optimizer:
    """How weights follow gradients."""

    kind: Literal["adam", "adamw"] = "adam"
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    """Below gradients of this size steps are shorter than `lr`: of a model that is right they are noise."""
    weight_decay: float = 0.0
    clip: float | None = 1.0
    """The largest norm of the gradient; None: any."""
    schedule: Literal["constant", "cosine"] = "cosine"
    warmup: int = 0
    """Steps in which the rate rises to `lr`."""
    fused: bool = True
    """Update in one pass over memory. Torch's plain loop is slower and rounds otherwise."""

    def __post_init__(self):
        for name in ("lr", "clip", "eps"):
            if (x := getattr(self, name)) is not None and not (x > 0 and math.isfinite(x)):
                raise Error(f"training.{name} must be above 0, got {x}.")
        if not (self.weight_decay >= 0 and math.isfinite(self.weight_decay)):
            raise Error(f"training.weight_decay must be at least 0, got {self.weight_decay}.")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise Error(f"training.betas must be two numbers in [0, 1), got {self.betas[0]},{self.betas[1]}.")
        _one_of(self, "kind", "training.optimizer")
        _one_of(self, "schedule")


@dataclass(frozen=True)
class Checkpointing:
    """When training is looked at, and what is kept of it."""

    validate_every: int = 100
    validation_samples: int = 512
    patience: int | None = None
    """Stop after this many validations without improvement; None: never."""
    checkpoint_every: int = 200

    def __post_init__(self):
        _at_least_one(self, "validate_every", "validation_samples", "patience", "checkpoint_every")


@dataclass(frozen=True)
class Training:
    """How to train. `Training.of(lr=1e-4, steps=500)` takes the fields of its parts by their own names."""

    steps: int = 1000
    batch: int = 128
    precision: Literal["fp32", "bf16", "fp64"] = "fp32"
    threads: int = 1
    """Of torch, on a CPU. Sums are rounded in another order with another number, so it is part of the experiment."""
    curriculum: Curriculum = Curriculum()
    optimizer: Optimizer = Optimizer()
    checkpointing: Checkpointing = Checkpointing()

    def __post_init__(self):
        _at_least_one(self, "steps", "batch", "threads")
        if not 0 <= self.optimizer.warmup <= self.steps:
            raise Error(f"training.warmup must be in 0..{self.steps} (training.steps), got {self.optimizer.warmup}.")
        _one_of(self, "precision")

    @classmethod
    def of(cls, **settings: Any) -> Training:
        """From the names of the fields of all parts; the name of a part is its kind.

        >>> Training.of(curriculum="growing", lr=1e-4).optimizer.lr
        0.0001
        """
        return cls().but(**settings)

    def but(self, **settings: Any) -> Training:
        """The same training with some settings changed, named as in `of`."""
        places = setting_places()
        changed: dict[str, dict[str, Any]] = {}
        for name, value in settings.items():
            part, key = places[name]
            changed.setdefault(part, {})[key] = value
        parts = {part: dataclasses.replace(getattr(self, part), **new) for part, new in changed.items() if part}
        return dataclasses.replace(self, **changed.get("", {}), **parts)

    def settings(self) -> dict[str, Any]:
        """Every setting by the name that `of` takes, JSON-like."""
        flat = {}
        for name, (part, key) in setting_places().items():
            value = getattr(getattr(self, part) if part else self, key)
            flat[name] = list(value) if isinstance(value, tuple) else value
        return flat


def setting_places() -> dict[str, tuple[str, str]]:
    """From the name of a setting of a training to the part that has it ("" for `Training` itself) and its field."""
    places: dict[str, tuple[str, str]] = {}
    for own in dataclasses.fields(Training):
        if not dataclasses.is_dataclass(own.default):
            places[own.name] = ("", own.name)
            continue
        for inner in dataclasses.fields(own.default):
            places[own.name if inner.name == "kind" else inner.name] = (own.name, inner.name)
    return places
