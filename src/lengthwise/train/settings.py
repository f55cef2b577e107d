"""How to train, as data: lengths, optimiser, checkpoints; part of every experiment.

Everything is JSON-like and frozen. Whoever changes a default must raise `SCHEMA` in `lab/experiment.py`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ..errors import Error, UnknownName
from ..limits import STEPS, WORKERS
from ..options import Schema, above, at_least, check_fields, schema


@dataclass(frozen=True)
class Curriculum:
    """The lengths that are trained, and their order; possible ones in `lengths[0]..lengths[1]`."""

    kind: Annotated[Literal["uniform", "log-uniform", "growing"], "The order in which lengths are trained."] = "uniform"
    lengths: Annotated[tuple[int, int], at_least(1), "The shortest and the longest training string."] = (1, 40)
    varied: Annotated[
        float,
        at_least(0, at_most=1),
        "The share of strings that are drawn with symbol probabilities of their own, so that runs and patterns occur.",
    ] = 0.0
    grow_from: Annotated[int, at_least(1), "Growing: the longest length at first."] = 4
    grow_at: Annotated[
        float, above(0, at_most=1), "Growing: the longest length rises when this share of its strings is right."
    ] = 0.985
    shrink_at: Annotated[
        float, at_least(0), "Growing: the longest length falls when less than this share is right at it; 0: never."
    ] = 0.0
    grow_late: Annotated[
        float, at_least(0, below=1), "Growing: the share of the steps for which the longer half of the lengths waits."
    ] = 0.0

    def __post_init__(self):
        check_fields(self, "training.", "curriculum")
        low, high = self.lengths
        if low > high:
            raise Error(f"training.lengths must be LOW,HIGH with 1 <= LOW <= HIGH, got {low},{high}.")
        if self.shrink_at >= self.grow_at:
            below = f"below training.grow_at ({self.grow_at})"
            raise Error(f"training.shrink_at must be at least 0 and {below}, got {self.shrink_at}.")


@dataclass(frozen=True)
class Optimizer:
    """The optimiser and its settings."""

    kind: Annotated[
        Literal["adam", "adamw", "muon"], "The rule that turns gradients into steps; muon: of matrices, else adamw."
    ] = "adam"
    lr: Annotated[float, above(0), "The learning rate."] = 1e-3
    betas: Annotated[
        tuple[float, float], at_least(0, below=1), "How slowly the averages of gradients and of their squares move."
    ] = (0.9, 0.999)
    eps: Annotated[
        float,
        above(0),
        "Gradients below this size take steps shorter than lr: once a model is right they are noise.",
    ] = 1e-8
    amsgrad: Annotated[
        bool, "Divide by the largest average of squares so far: once little is wrong, steps are short and stay so."
    ] = False
    weight_decay: Annotated[float, at_least(0), "How fast weights shrink."] = 0.0
    clip: Annotated[float | None, above(0), "The largest norm of the gradient; None: any."] = 1.0
    schedule: Annotated[Literal["constant", "cosine"], "How the learning rate goes on after the warm-up."] = "cosine"
    warmup: Annotated[int, at_least(0), "Steps in which the learning rate rises to lr."] = 0
    fused: Annotated[bool, "Update in one pass over memory; torch's plain loop is slower and rounds otherwise."] = True

    def __post_init__(self):
        check_fields(self, "training.", "optimizer")


@dataclass(frozen=True)
class Checkpointing:
    """When training is looked at, and what is kept of it."""

    validate_every: Annotated[int, at_least(1), "Steps from one validation to the next."] = 100
    validation_samples: Annotated[int, at_least(1), "How many strings a validation has."] = 512
    patience: Annotated[
        int | None, at_least(1), "Stop after this many validations without improvement; None: never."
    ] = None
    go_back: Annotated[
        float | None,
        above(0, below=1),
        "Strings: go back to the best weights when a validation's accuracy is so much below theirs; None: never.",
    ] = None
    checkpoint_every: Annotated[int, at_least(1), "Steps from one checkpoint to the next."] = 200
    sample_every: Annotated[
        int | None, at_least(1), "Text: steps from one generated sample in the metrics to the next; None: no samples."
    ] = None

    def __post_init__(self):
        check_fields(self, "training.")


@dataclass(frozen=True)
class Steadiness:
    """The settings of training that makes errors fade; see `train/steady.py`."""

    kind: Annotated[
        Literal["off", "on"], "Whether states are trained to be steady, so that a proof at every length may be found."
    ] = "off"
    noise: Annotated[float, above(0), "Steady: the standard deviation of the noise on every state."] = 0.2
    forget: Annotated[
        float, at_least(0, below=1), "Steady: the share of a GRU's or LSTM's gates that let go of what they hold."
    ] = 0.5
    contraction: Annotated[float, at_least(0), "Steady: the weight of the penalty on states that spread."] = 0.003
    slope: Annotated[float, at_least(0, below=1), "Steady: the share of an error that a token may leave, free."] = 0.5
    silence: Annotated[bool, "Steady, automata: whether what no answer hangs on is silenced late."] = True
    leave_out: Annotated[float, at_least(0, below=1), "Steady, automata: the share of x_0 left out of a string."] = 0.0

    def __post_init__(self):
        check_fields(self, "training.", "steady")


@dataclass(frozen=True)
class Training:
    """The settings of a training. `Training.of(lr=1e-4, steps=500)` takes fields of its parts by their own names."""

    steps: Annotated[int, at_least(1, at_most=STEPS), "How many steps are trained at most."] = 1000
    batch: Annotated[int, at_least(1), "How many strings a step has."] = 128
    precision: Annotated[Literal["fp32", "bf16", "fp64"], "The number format of the calculation."] = "fp32"
    threads: Annotated[
        int, at_least(1, at_most=WORKERS), "Threads of torch on a CPU; another number rounds sums in another order."
    ] = 1
    recompute: Annotated[
        bool, "Compute activations again in the backward pass: a model takes less memory and more time."
    ] = False
    compile: Annotated[bool, "Train with torch.compile: it takes minutes to begin, and pays on a GPU in long runs."] = (
        False
    )
    spans: Annotated[
        bool, "Trees: every node is asked for the answer of the tokens under it, where these are a string of the task."
    ] = False
    curriculum: Curriculum = Curriculum()
    optimizer: Optimizer = Optimizer()
    checkpointing: Checkpointing = Checkpointing()
    steady: Steadiness = Steadiness()

    def __post_init__(self):
        check_fields(self, "training.")
        if self.steady.kind == "on" and (self.compile or self.recompute):
            raise Error("training.steady goes with neither training.compile nor training.recompute. Leave these off.")
        if self.spans and (self.compile or self.recompute):
            raise Error("training.spans goes with neither training.compile nor training.recompute. Leave these off.")
        if self.optimizer.warmup > self.steps:
            raise Error(f"training.warmup must be in 0..{self.steps} (training.steps), got {self.optimizer.warmup}.")

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
            if name not in places:
                raise UnknownName("setting of training", name, places)
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


def training_options() -> Schema:
    """The settings of a training, flat: those that `Training.of` takes."""
    options = {}
    for name, (part, key) in setting_places().items():
        kind = type(getattr(Training(), part)) if part else Training
        options[name] = dataclasses.replace(schema(kind)[key], name=name)
    return options
