"""An experiment as data: which strings or text, which model, asked how, trained how, tested where, with which seed.

Everything is JSON-like and frozen. `Experiment.hash` is the SHA-256 of its canonical JSON; it names the run directory
and finds finished work. Two rules keep old records readable for ever:

    a field at its default is left out of the JSON,      so a new field changes no old hash
    a missing field is its default,                      so an old record can be read by newer code

Some things stand in the record, so that it can be run again, but not in the hash. Fields with `compare=False` say where
text and checkpoints lie on this machine: digests say what was there. And a preset's options may be given at their
defaults, which is the same model as leaving them out. Of code from outside all options count as they were given.

Whoever changes a default must therefore raise `SCHEMA` and say in `from_json` what the old number meant.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Annotated, Any, Literal, get_origin, get_type_hints

from .. import models
from ..errors import Error
from ..evaluate.text import Way
from ..limits import SAMPLES
from ..options import Option, at_least, check_fields
from ..train.settings import Training

SCHEMA = 1
"""What the defaults of this file are; stands in every record."""
hints_of = cache(get_type_hints)


@dataclass(frozen=True)
class TaskSpec:
    """Strings of a task: `tasks.get(name, **params)` rebuilds it; `source`: a digest of code from outside."""

    name: str
    params: dict[str, Any] = field(default_factory=dict)
    source: str | None = None


@dataclass(frozen=True)
class TextSpec:
    """Text, known by the digests of its documents, in blocks of `block` tokens."""

    name: str
    digests: dict[str, str] = field(default_factory=dict)
    """Of the documents to "train" on and of those to "test" on."""
    block: int = 512
    test_blocks: int | None = None
    """The test is at most so many blocks long; None: as long as its documents."""
    tokenizer: str | None = None
    """The digest of the tokenizer; None: it is the checkpoint's own."""
    tokenizer_folder: str | None = field(default=None, compare=False)
    store: str | None = field(default=None, compare=False)
    """Where the tokens are kept."""
    files: tuple[str, ...] = field(default=(), compare=False)
    test_files: tuple[str, ...] = field(default=(), compare=False)
    """Documents to test on; none: a share of `files`."""
    held_out: float = field(default=0.0, compare=False)
    """The share of the documents in `files` that is tested on, where there are no `test_files`."""


@dataclass(frozen=True)
class AnswersSpec(TextSpec):
    """Questions with answers to write, known by the digests of their rows, in prompts of at most `block` tokens.

    `files` is where they are read from. All tokens of the answers are predicted, and some answers written.
    """

    task: str = ""
    """The task of SCROLLS."""
    budget: int = 0
    """How many tokens an answer has at most."""
    trained: int | None = None
    """At most so many rows are trained on; None: all."""
    questions: int | None = None
    """At most so many questions are tested; None: all."""


DATA: dict[str, type[TaskSpec] | type[TextSpec]] = {"task": TaskSpec, "text": TextSpec, "answers": AnswersSpec}
"""The kinds of data, by the key they have in the JSON."""


@dataclass(frozen=True)
class ModelSpec:
    """`models.build(name, …, **options)` rebuilds the model; `source`: a digest of code or config from outside.

    Of a pretrained checkpoint `options` holds the conversions, `source` the digest and `folder` its place; of the model
    of an earlier experiment the conversions alone.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    source: str | None = None
    folder: str | None = field(default=None, compare=False)

    def without_defaults(self) -> ModelSpec:
        """The same model, of a preset's options only those that are not at their defaults.

        >>> ModelSpec("lstm", {"width": 64, "layers": 2}).without_defaults().options
        {'layers': 2}
        """
        if self.source is not None or self.name not in models.presets.PRESETS:
            return self
        usual = {option.name: option.default for option in models.options(self.name).values()}
        return replace(self, options={k: v for k, v in self.options.items() if k not in usual or usual[k] != v})


@dataclass(frozen=True)
class ObjectiveSpec:
    """An objective: whole strings as their task scores them, every next token, or the tokens of answers."""

    kind: Literal["strings", "next-token", "answers"] = "strings"
    tokens_at_once: Annotated[
        int, at_least(1), "Next token: a batch is read in parts of about so many tokens, whose gradients are summed."
    ] = 4096
    state_passing: Annotated[
        int,
        at_least(0),
        "Next token, of a recurrent model: a window begins in the state that so many others of its batch have left.",
    ] = 0

    def __post_init__(self):
        check_fields(self, "objective.")


@dataclass(frozen=True)
class LengthTests:
    """Tests by length: `samples` strings of each, a function of (task, length, seed) alone.

    Of text a length is a number of tokens, and `way` says what is measured there; see `evaluate/text.py`.
    """

    lengths: Annotated[tuple[int, ...], at_least(1), "The lengths that are tested."] = ()
    samples: Annotated[int, at_least(1, at_most=SAMPLES), "How many strings of every length are tested."] = 512
    seed: Annotated[int, "Another seed tests other strings."] = 0
    way: Annotated[
        Way, "Text: perplexity of whole windows of the length, or of the last token of chunks drawn at random."
    ] = "windows"

    def __post_init__(self):
        check_fields(self, "tests.")
        if not self.lengths:
            raise Error("tests.lengths is empty: name at least one test length.")


@dataclass(frozen=True)
class Experiment:
    data: TaskSpec | TextSpec
    model: ModelSpec
    training: Training
    tests: LengthTests
    seed: int = 0
    objective: ObjectiveSpec = ObjectiveSpec()
    continues: Experiment | None = None
    """The experiment whose trained model this one begins with, and which is run before it."""

    def __post_init__(self):
        check_fields(self, "experiment.")

    @property
    def task(self) -> TaskSpec:
        """The task, of an experiment that has one."""
        if not isinstance(self.data, TaskSpec):
            raise Error(f"{self.data.name} is text, and this needs a task. Give a run of `lengthwise bench`.")
        return self.data

    @property
    def text(self) -> TextSpec:
        """The text, of an experiment that has one."""
        if not isinstance(self.data, TextSpec):
            raise Error(f"{self.data.name} is a task, and this needs text. Give a run of `lengthwise train`.")
        return self.data

    @property
    def on_text(self) -> bool:
        """True if perplexity is measured, and not strings that are right."""
        return isinstance(self.data, TextSpec)

    @property
    def from_checkpoint(self) -> bool:
        """True if a pretrained checkpoint is trained on, and not a model from scratch."""
        return isinstance(self.data, TextSpec) and self.data.tokenizer is None

    def to_json(self, local: bool = True) -> dict[str, Any]:
        """Returns what is not at its default; with `SCHEMA`, all there is to say. `local`: also about this machine."""
        kind = next(key for key, spec in DATA.items() if type(self.data) is spec)
        changed = {**_changed(self, local), "data": {kind: _changed(self.data, local)}}
        if self.continues is not None:
            changed["continues"] = self.continues.to_json() if local else self.continues.hash
        return json.loads(json.dumps({"schema": SCHEMA, **changed}))

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Experiment:
        """The inverse of `to_json`. What this version does not know is refused, for it would be left out silently."""
        if not isinstance(content, Mapping):
            raise Error(f"Not an experiment: it must be a JSON object, got {type(content).__name__}.")
        schema = content.get("schema")
        if schema is None:
            raise Error("Recorded before experiments had a schema number, by an unreleased Lengthwise. Run it again.")
        if schema != SCHEMA:
            raise Error(f"Recorded with schema {schema}, and this Lengthwise knows {SCHEMA}. Use a newer Lengthwise.")
        try:
            ((kind, data),) = content["data"].items()
            rest = {key: value for key, value in content.items() if key not in ("schema", "data")}
            if "continues" in rest:
                rest["continues"] = cls.from_json(rest["continues"])
            return _read(cls, {**rest, "data": _read(DATA[kind], data)})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Error(f"Not an experiment of this version of Lengthwise: {error}.") from error

    @cached_property
    def hash(self) -> str:
        return replace(self, model=self.model.without_defaults()).hash_as_given

    @cached_property
    def hash_as_given(self) -> str:
        """With the model's options as they were given: the hash of records from before their defaults dropped out."""
        text = json.dumps(self.to_json(local=False), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def directory(self) -> str:
        """The run directory's name: readable, and unique by its hash."""
        readable = re.sub(r"[^A-Za-z0-9]+", "-", f"{self.data.name.split('/')[-1]}-{self.model.name.split('/')[-1]}")
        return f"{readable.strip('-')[:60]}-s{self.seed}-{self.hash}"


def _changed(part: Any, local: bool) -> dict[str, Any]:
    """The fields that are not at their defaults, parts within it likewise. `local`: also those about this machine."""
    changed = {}
    for each in dataclasses.fields(part):
        value = getattr(part, each.name)
        default = each.default_factory() if each.default_factory is not dataclasses.MISSING else each.default
        if value == default or not (each.compare or local):
            continue
        changed[each.name] = _changed(value, local) if dataclasses.is_dataclass(value) else value
    return changed


def _read(kind: Any, content: Mapping[str, Any]) -> Any:
    """A dataclass from JSON: lists become tuples where the field says so, objects become parts."""
    hints = hints_of(kind)
    if unknown := content.keys() - {each.name for each in dataclasses.fields(kind)}:
        raise KeyError(", ".join(sorted(unknown)))
    values = {}
    for name, value in content.items():
        if dataclasses.is_dataclass(hints[name]) and isinstance(value, Mapping):
            value = _read(hints[name], value)
        hint = dict if get_origin(hints[name]) is dict else hints[name]
        values[name] = Option(name, hint).read(value, name)
    return kind(**values)
