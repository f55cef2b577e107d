"""An experiment as data: which strings or text, which model, asked how, trained how, tested where, with which seed.

Everything is JSON-like and frozen. `Experiment.hash` is the SHA-256 of its canonical JSON; it names the run directory
and finds finished work. Two rules keep old records readable for ever:

    a field at its default is left out of the JSON,      so a new field changes no old hash
    a missing field is its default,                      so an old record can be read by newer code

Whoever changes a default must therefore raise `SCHEMA` and say in `from_json` what the old number meant.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, get_origin, get_type_hints

from ..errors import Error, UnknownName
from ..options import Schema, above, at_least, check_fields, schema

SCHEMA = 1
"""What the defaults of this file are; stands in every record."""


def _named(part: str = "") -> Callable[[str], str]:
    """How errors call a field: the kind of a part goes by the part's own name."""
    return lambda field: f"training.{part if field == 'kind' else field}"


@dataclass(frozen=True)
class TaskSpec:
    """Strings of a task: `tasks.get(name, **params)` rebuilds it."""

    name: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TextSpec:
    """Text, known by the digests of its documents, in blocks of `block` tokens."""

    name: str
    digests: dict[str, str] = field(default_factory=dict)
    """Of the documents to "train" on and of those to "test" on."""
    block: int = 512
    test_blocks: int | None = None
    """How many blocks are tested at most; None: all."""


DATA: dict[str, type[TaskSpec] | type[TextSpec]] = {"task": TaskSpec, "text": TextSpec}
"""The kinds of data, by the key they have in the JSON."""


@dataclass(frozen=True)
class ModelSpec:
    """`models.build(name, …, **options)` rebuilds the model; `source`: a digest of code or config from outside."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    source: str | None = None


@dataclass(frozen=True)
class Objective:
    """How the data is asked: whole strings as their task scores them, or every next token."""

    kind: Literal["strings", "next-token"] = "strings"


@dataclass(frozen=True)
class Curriculum:
    """Which lengths are trained, in which order; possible ones in `lengths[0]..lengths[1]`."""

    kind: Annotated[Literal["uniform", "log-uniform", "growing"], "The order in which lengths are trained."] = "uniform"
    lengths: Annotated[tuple[int, int], at_least(1), "The shortest and the longest training string."] = (1, 40)
    grow_from: Annotated[int, at_least(1), "Growing: the longest length at first."] = 4
    grow_at: Annotated[
        float, above(0, at_most=1), "Growing: the longest length rises when this share of its strings is right."
    ] = 0.985
    shrink_at: Annotated[
        float, at_least(0), "Growing: the longest length falls when less than this share is right at it; 0: never."
    ] = 0.0

    def __post_init__(self):
        check_fields(self, _named("curriculum"))
        low, high = self.lengths
        if low > high:
            raise Error(f"training.lengths must be LOW,HIGH with 1 <= LOW <= HIGH, got {low},{high}.")
        if self.shrink_at >= self.grow_at:
            raise Error(
                f"training.shrink_at must be at least 0 and below training.grow_at ({self.grow_at}), "
                f"got {self.shrink_at}."
            )


@dataclass(frozen=True)
class Optimizer:
    """How weights follow gradients."""

    kind: Annotated[Literal["adam", "adamw"], "The rule that turns gradients into steps."] = "adam"
    lr: Annotated[float, above(0), "The learning rate."] = 1e-3
    betas: Annotated[
        tuple[float, float], at_least(0, below=1), "How slowly the averages of gradients and of their squares move."
    ] = (0.9, 0.999)
    eps: Annotated[
        float,
        above(0),
        "Gradients below this size take steps shorter than lr: once a model is right they are noise.",
    ] = 1e-8
    weight_decay: Annotated[float, at_least(0), "How fast weights shrink."] = 0.0
    clip: Annotated[float | None, above(0), "The largest norm of the gradient; None: any."] = 1.0
    schedule: Annotated[Literal["constant", "cosine"], "How the learning rate goes on after the warm-up."] = "cosine"
    warmup: Annotated[int, at_least(0), "Steps in which the learning rate rises to lr."] = 0

    def __post_init__(self):
        check_fields(self, _named("optimizer"))


@dataclass(frozen=True)
class Checkpointing:
    """When training is looked at, and what is kept of it."""

    validate_every: Annotated[int, at_least(1), "Steps from one validation to the next."] = 100
    validation_samples: Annotated[int, at_least(1), "How many strings a validation has."] = 512
    patience: Annotated[
        int | None, at_least(1), "Stop after this many validations without improvement; None: never."
    ] = None
    checkpoint_every: Annotated[int, at_least(1), "Steps from one checkpoint to the next."] = 200

    def __post_init__(self):
        check_fields(self, _named())


@dataclass(frozen=True)
class Training:
    """How to train. `Training.of(lr=1e-4, steps=500)` takes the fields of its parts by their own names."""

    steps: Annotated[int, at_least(1), "How many steps are trained at most."] = 1000
    batch: Annotated[int, at_least(1), "How many strings a step has."] = 128
    precision: Annotated[Literal["fp32", "bf16", "fp64"], "The number format of the calculation."] = "fp32"
    threads: Annotated[int, at_least(1), "Threads of torch on a CPU; another number rounds sums in another order."] = 1
    curriculum: Curriculum = Curriculum()
    optimizer: Optimizer = Optimizer()
    checkpointing: Checkpointing = Checkpointing()

    def __post_init__(self):
        check_fields(self, _named())
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


@dataclass(frozen=True)
class Evaluation:
    """Where to test: `samples` strings of every length, a function of (task, length, seed) alone."""

    lengths: Annotated[tuple[int, ...], at_least(1), "The lengths that are tested."] = ()
    samples: Annotated[int, at_least(1), "How many strings of every length are tested."] = 512
    seed: Annotated[int, "Another seed tests other strings."] = 0

    def __post_init__(self):
        check_fields(self, "evaluation.{}".format)
        if not self.lengths:
            raise Error("evaluation.lengths is empty: name at least one test length.")


def training_options() -> Schema:
    """The settings of a training, flat: those that `Training.of` takes."""
    options = {}
    for name, (part, key) in setting_places().items():
        kind = type(getattr(Training(), part)) if part else Training
        options[name] = dataclasses.replace(schema(kind)[key], name=name)
    return options


@dataclass(frozen=True)
class Experiment:
    data: TaskSpec | TextSpec
    model: ModelSpec
    training: Training
    evaluation: Evaluation
    seed: int = 0
    objective: Objective = Objective()

    @property
    def task(self) -> TaskSpec:
        """The task, of an experiment that has one."""
        if not isinstance(self.data, TaskSpec):
            raise Error(f"{self.data.name} is text; this needs an experiment on a task.")
        return self.data

    def to_json(self) -> dict[str, Any]:
        """What is not at its default; with `SCHEMA`, all there is to say."""
        kind = next(key for key, spec in DATA.items() if isinstance(self.data, spec))
        return json.loads(json.dumps({"schema": SCHEMA, **_changed(self), "data": {kind: _changed(self.data)}}))

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Experiment:
        """The inverse of `to_json`. What this version does not know is refused, for it would be left out silently."""
        schema = given.get("schema")
        if schema is None:
            raise Error("Recorded before experiments had a schema number, by an unreleased Lengthwise. Run it again.")
        if schema != SCHEMA:
            raise Error(f"Recorded with schema {schema}, and this Lengthwise knows {SCHEMA}. Use a newer Lengthwise.")
        try:
            ((kind, data),) = given["data"].items()
            rest = {key: value for key, value in given.items() if key not in ("schema", "data")}
            return _read(cls, {**rest, "data": _read(DATA[kind], data)})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Error(f"Not an experiment of this version of Lengthwise: {error}.") from error

    @cached_property
    def hash(self) -> str:
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def directory(self) -> str:
        """The run directory's name: readable, and unique by its hash."""
        readable = re.sub(r"[^A-Za-z0-9]+", "-", f"{self.data.name}-{self.model.name.split('/')[-1]}").strip("-")[:60]
        return f"{readable}-s{self.seed}-{self.hash}"


def _changed(part: Any) -> dict[str, Any]:
    """The fields that are not at their defaults, parts within it likewise."""
    found = {}
    for each in dataclasses.fields(part):
        value = getattr(part, each.name)
        default = each.default_factory() if each.default_factory is not dataclasses.MISSING else each.default
        if value != default:
            found[each.name] = _changed(value) if dataclasses.is_dataclass(value) else value
    return found


def _read(kind: Any, given: Mapping[str, Any]) -> Any:
    """A dataclass from JSON: lists become tuples where the field says so, objects become parts."""
    hints = get_type_hints(kind)
    if unknown := given.keys() - {each.name for each in dataclasses.fields(kind)}:
        raise KeyError(", ".join(sorted(unknown)))
    values = {}
    for name, value in given.items():
        if dataclasses.is_dataclass(hints[name]) and isinstance(value, Mapping):
            value = _read(hints[name], value)
        values[name] = tuple(value) if get_origin(hints[name]) is tuple else value
    return kind(**values)
