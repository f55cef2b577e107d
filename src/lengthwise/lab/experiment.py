"""An experiment as data: what is asked, of which model, trained how, tested where, with which seed.

Everything is JSON-like and frozen. `Experiment.hash` is the SHA-256 of the canonical JSON; it names the run directory
and finds finished work.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_type_hints

from ..errors import Error


@dataclass(frozen=True)
class TaskSpec:
    """`tasks.get(name, **params)` rebuilds the task."""

    name: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelSpec:
    """`models.build(name, …, **options)` rebuilds the model; `source`: a digest of code or config from outside."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    source: str | None = None


@dataclass(frozen=True)
class Training:
    """How to train. Lengths are the possible ones in `lengths[0]..lengths[1]`."""

    lengths: tuple[int, int] = (1, 40)
    curriculum: Literal["uniform", "log-uniform", "growing"] = "uniform"
    grow_from: int = 4
    """growing: the longest length at first, raised by one possible length when `grow_at` of the longest is right."""
    grow_at: float = 0.985
    shrink_at: float = 0.0
    """growing: the longest length falls by one when less than this share is right at it; 0: never."""
    steps: int = 1000
    batch: int = 128
    optimizer: Literal["adam", "adamw"] = "adam"
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    """Below gradients of this size steps are shorter than `lr`: of a model that is right they are noise."""
    weight_decay: float = 0.0
    clip: float | None = 1.0
    schedule: Literal["constant", "cosine"] = "cosine"
    warmup: int = 0
    precision: Literal["fp32", "bf16", "fp64"] = "fp32"
    validate_every: int = 100
    validation_samples: int = 512
    patience: int | None = None
    """Stop after this many validations without improvement; None: never."""
    checkpoint_every: int = 200

    def __post_init__(self):
        low, high = self.lengths
        if not 1 <= low <= high:
            raise Error(f"training.lengths must be LOW,HIGH with 1 <= LOW <= HIGH, got {low},{high}.")
        for name in (
            "steps",
            "batch",
            "validate_every",
            "validation_samples",
            "checkpoint_every",
            "patience",
            "grow_from",
        ):
            if (n := getattr(self, name)) is not None and n < 1:
                raise Error(f"training.{name} must be at least 1, got {n}.")
        for name in ("lr", "clip", "eps"):
            if (x := getattr(self, name)) is not None and not (x > 0 and math.isfinite(x)):
                raise Error(f"training.{name} must be above 0, got {x}.")
        if not 0 < self.grow_at <= 1:
            raise Error(f"training.grow_at must be above 0 and at most 1, got {self.grow_at}.")
        if not 0 <= self.shrink_at < self.grow_at:
            raise Error(
                f"training.shrink_at must be at least 0 and below training.grow_at ({self.grow_at}), "
                f"got {self.shrink_at}."
            )
        if not (self.weight_decay >= 0 and math.isfinite(self.weight_decay)):
            raise Error(f"training.weight_decay must be at least 0, got {self.weight_decay}.")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise Error(f"training.betas must be two numbers in [0, 1), got {self.betas[0]},{self.betas[1]}.")
        if not 0 <= self.warmup <= self.steps:
            raise Error(f"training.warmup must be in 0..{self.steps} (training.steps), got {self.warmup}.")
        hints = get_type_hints(type(self))
        for name in ("curriculum", "optimizer", "schedule", "precision"):
            if (choice := getattr(self, name)) not in get_args(hints[name]):
                raise Error(f"training.{name} is one of {', '.join(get_args(hints[name]))}, got {choice!r}.")


@dataclass(frozen=True)
class Evaluation:
    """Where to test: `samples` strings of every length, a function of (task, length, seed) alone."""

    lengths: tuple[int, ...] = ()
    samples: int = 512
    seed: int = 0

    def __post_init__(self):
        if not self.lengths:
            raise Error("evaluation.lengths is empty: name at least one test length.")
        if self.samples < 1:
            raise Error(f"evaluation.samples must be at least 1, got {self.samples}.")


@dataclass(frozen=True)
class Experiment:
    task: TaskSpec
    model: ModelSpec
    training: Training
    evaluation: Evaluation
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Experiment:
        """The inverse of `to_json`; unknown or missing keys are errors, for the hash must mean the same everywhere."""
        try:
            for kind, part in [
                (cls, data), (TaskSpec, data["task"]), (ModelSpec, data["model"]),
                (Training, data["training"]), (Evaluation, data["evaluation"]),
            ]:  # fmt: skip
                if odd := {f.name for f in dataclasses.fields(kind)} ^ part.keys():
                    raise KeyError(", ".join(sorted(odd)))
            training = {**data["training"]}
            for key in ("lengths", "betas"):
                training[key] = tuple(training[key])
            evaluation = {**data["evaluation"], "lengths": tuple(data["evaluation"]["lengths"])}
            return cls(
                TaskSpec(**data["task"]),
                ModelSpec(**data["model"]),
                Training(**training),
                Evaluation(**evaluation),
                data["seed"],
            )
        except (KeyError, TypeError) as error:
            raise Error(f"Not an experiment of this version of Lengthwise: {error}.") from error

    @property
    def hash(self) -> str:
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def directory(self) -> str:
        """The run directory's name: readable, and unique by its hash."""
        readable = re.sub(r"[^A-Za-z0-9]+", "-", f"{self.task.name}-{self.model.name.split('/')[-1]}").strip("-")[:60]
        return f"{readable}-s{self.seed}-{self.hash}"
