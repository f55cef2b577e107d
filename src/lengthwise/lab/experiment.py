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
from typing import Any, Literal

from ..errors import Error


@dataclass(frozen=True)
class TaskSpec:
    """`tasks.get(name, **params)` rebuilds the task."""

    name: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelSpec:
    """`models.build(name, …, **options)` rebuilds the model; `source` is a digest of code or config outside this library."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    source: str | None = None


@dataclass(frozen=True)
class Training:
    """How to train. Lengths are the possible ones in `lengths[0]..lengths[1]`."""

    lengths: tuple[int, int] = (1, 40)
    curriculum: Literal["uniform", "growing"] = "uniform"
    grow_from: int = 4
    """growing: the longest length at first, raised by one possible length when `grow_at` of the longest is right."""
    grow_at: float = 0.985
    steps: int = 1000
    batch: int = 128
    optimizer: Literal["adam", "adamw"] = "adam"
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
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
        for ok, rule in [
            (1 <= low <= high, f"training.lengths must be LOW,HIGH with 1 <= LOW <= HIGH, got {low},{high}"),
            (self.steps >= 1, f"training.steps must be at least 1, got {self.steps}"),
            (self.batch >= 1, f"training.batch must be at least 1, got {self.batch}"),
            (self.lr > 0 and math.isfinite(self.lr), f"training.lr must be above 0, got {self.lr}"),
            (0 <= self.warmup <= self.steps, f"training.warmup must be in 0..steps, got {self.warmup}"),
            (self.validate_every >= 1, f"training.validate_every must be at least 1, got {self.validate_every}"),
            (self.validation_samples >= 1, f"training.validation_samples must be at least 1, got {self.validation_samples}"),
            (self.checkpoint_every >= 1, f"training.checkpoint_every must be at least 1, got {self.checkpoint_every}"),
            (self.clip is None or self.clip > 0, f"training.clip must be above 0 or none, got {self.clip}"),
            (self.patience is None or self.patience >= 1, f"training.patience must be at least 1 or none, got {self.patience}"),
            (self.curriculum in ("uniform", "growing"), f"training.curriculum is uniform or growing, got {self.curriculum!r}"),
            (self.optimizer in ("adam", "adamw"), f"training.optimizer is adam or adamw, got {self.optimizer!r}"),
            (self.schedule in ("constant", "cosine"), f"training.schedule is constant or cosine, got {self.schedule!r}"),
            (self.precision in ("fp32", "bf16", "fp64"), f"training.precision is fp32, bf16 or fp64, got {self.precision!r}"),
        ]:
            if not ok:
                raise Error(rule + ".")


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
