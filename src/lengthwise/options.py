"""Options: what a function or dataclass can be told. Read once from its annotations, then parsed, checked and listed.

    def lstm(vocab_size: int, *, width: Annotated[int, at_least(1), "How many numbers a token becomes."] = 64): ...

An annotation holds the type, the bounds if there are any, and one sentence for `lengthwise list`. `schema(lstm)` maps
the names to `Option`s. `take(schema(lstm), given, "lstm")` checks names before values, and both before `lstm` is
called: a TypeError inside it is therefore a mistake of its own, and is never relabelled.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial, wraps
from math import inf, isfinite
from numbers import Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import Error, UnknownName, in_words

REQUIRED: Any = inspect.Parameter.empty
"""The default of an option that has none."""
Given = ParamSpec("Given")
Result = TypeVar("Result")


class Word(str):
    """A value as it was typed; what it means depends on the option it is for."""


class _Misfit(Exception):
    """The value is not of this kind."""


@dataclass(frozen=True)
class Bounds:
    """The range of a number, or of every number in a list. Made by `at_least` and `above`."""

    low: float
    high: float | None = None
    """None: any finite number; infinity is one of the values only where it is named here."""
    above: bool = False
    below: bool = False
    """Whether `low` itself is outside (`above`), and `high` itself (`below`)."""

    def hold(self, value: Any) -> bool:
        if isinstance(value, (list, tuple)):
            return all(map(self.hold, value))
        if not isinstance(value, (int, float)):
            return True
        over = value > self.low if self.above else value >= self.low
        if self.high is None:
            return over and (isinstance(value, int) or isfinite(value))
        return over and (value < self.high if self.below else value <= self.high)

    def __str__(self) -> str:
        over = f"{'above' if self.above else 'at least'} {self.low}"
        if self.high is None or self.high == inf:
            return over
        if not (self.above or self.below):
            return f"in {self.low}..{self.high}"
        return f"{over} and {'below' if self.below else 'at most'} {self.high}"


def at_least(low: float, *, at_most: float | None = None, below: float | None = None) -> Bounds:
    return Bounds(low, at_most if below is None else below, below=below is not None)


def above(low: float, *, at_most: float | None = None, below: float | None = None) -> Bounds:
    return Bounds(low, at_most if below is None else below, above=True, below=below is not None)


ANY_FINITE = Bounds(-inf, above=True)


@dataclass(frozen=True)
class Option:
    name: str
    kind: Any = Any
    """A type such as `int | None`, `list[float]` or `Literal["pre", "post"]`; `Any` is not checked."""
    default: Any = REQUIRED
    bounds: Bounds | None = None
    line: str = ""
    """One sentence on what it is for."""

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types of a union, without None."""
        every = get_args(self.kind) if get_origin(self.kind) in (Union, UnionType) else (self.kind,)
        plain = (get_args(kind)[0] if get_origin(kind) is Annotated else kind for kind in every)
        return tuple(kind for kind in plain if kind is not NoneType)

    @property
    def choices(self) -> tuple[Any, ...]:
        return tuple(word for kind in self.kinds if get_origin(kind) is Literal for word in get_args(kind))

    @property
    def expected(self) -> str:
        """What it must be, in words.

        >>> Option("width", int, 64, at_least(1)).expected, Option("norm", Literal["pre", "post"] | None).expected
        ('a whole number at least 1', "'pre', 'post' or None")
        """
        types = [_in_words(kind) for kind in self.kinds if get_origin(kind) is not Literal and kind is not bool]
        if types and self.bounds:
            types[-1] += f" {self.bounds}"
        types += ["True", "False"] if bool in self.kinds else []
        words = [*map(repr, self.choices), *types, *(["None"] if _optional(self.kind) else [])]
        return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

    def read(self, value: Any, label: str) -> Any:
        """`value`, or what a `Word` stands for, as this option's type; else an error about `label`."""
        if value is self.default:
            return value
        meant = self._meaning(value) if isinstance(value, Word) else value
        if meant is None and _optional(self.kind):
            return None
        for kind in self.kinds:
            try:
                fitted = _fitted(meant, kind)
            except _Misfit:
                continue
            if kind is Any or (self.bounds or ANY_FINITE).hold(fitted):
                return fitted
        raise Error(f"{label} must be {self.expected}, got {in_words(meant)}.{self._remedy(meant)}")

    def _meaning(self, word: Word) -> Any:
        if word in self.choices:
            return str(word)
        if word.lower() in ("none", "null") and (_optional(self.kind) or str not in self.kinds):
            return None
        if str in self.kinds:
            return str(word)
        meant = value_of(word)
        listed = any(get_origin(kind) in (list, Sequence) for kind in self.kinds)
        single = isinstance(meant, (int, float)) and float not in self.kinds and int not in self.kinds
        return [meant] if listed and single else meant

    def _remedy(self, value: Any) -> str:
        near = get_close_matches(value, map(str, self.choices), n=1, cutoff=0.5) if isinstance(value, str) else []
        if near:
            return f" Did you mean {near[0]!r}?"
        return "" if self.default is REQUIRED or self.default is None else f" The default is {self.default!r}."

    def to_json(self) -> dict[str, Any]:
        """All there is to say of it; without a "default" it must be given."""
        record = {"name": self.name, "type": self.expected, "required": self.required, "line": self.line}
        record |= {"choices": list(self.choices), "low": getattr(self.bounds, "low", None)}
        record |= {"high": getattr(self.bounds, "high", None)}
        return record if self.required else {**record, "default": self.default}


Schema = Mapping[str, Option]


@dataclass(frozen=True)
class OptionsOf:
    """Annotates a `**shared` which is handed on to `target`: its options are options here, too; None: the base class.

    >>> def rnn(*, width: Annotated[int, at_least(1), "How wide it is."] = 64): ...
    >>> def lstm(*, layers: int = 1, **shared: Annotated[Any, OptionsOf(rnn)]): ...
    >>> list(schema(lstm))
    ['layers', 'width']
    """

    target: Any = None
    names: str = ""
    """Those that are meant, with spaces between; "": all that have a line."""

    def schema(self, heir: Any, keyword_only: bool) -> dict[str, Option]:
        known = schema(self.target or heir.__base__, keyword_only=keyword_only)
        names = self.names.split() or [name for name, option in known.items() if option.line]
        return {name: known[name] for name in names}


Inherited = Annotated[Any, OptionsOf()]
"""Annotates the `**shared` of a class whose options are its own and those of its base, to which it hands them on."""


@cache
def schema(target: Any, *, without: Collection[str] = (), keyword_only: bool = False) -> Schema:
    """The options of a function, class, `functools.partial` or dataclass, less those that somebody else fills in.

    >>> def lstm(vocab_size: int, *, width: Annotated[int, at_least(1), "How wide it is."] = 64): ...
    >>> schema(lstm, keyword_only=True)["width"].expected
    'a whole number at least 1'
    """
    if isinstance(target, partial):
        return schema(target.func, without=(*without, *target.keywords), keyword_only=keyword_only)
    if dataclasses.is_dataclass(target):
        hints = get_type_hints(target, include_extras=True)
        named = {field.name: _default(field) for field in dataclasses.fields(target)}
    else:
        hints = get_type_hints(target.__init__ if inspect.isclass(target) else target, include_extras=True)
        kinds = [inspect.Parameter.KEYWORD_ONLY]
        kinds += [] if keyword_only else [inspect.Parameter.POSITIONAL_OR_KEYWORD]
        parameters = inspect.signature(target).parameters.values()
        named = {p.name: p.default for p in parameters if p.kind in kinds}
    known = {name: option_of(name, hints.get(name, Any), named[name]) for name in named if name not in without}
    for note in (note for hint in hints.values() if get_origin(hint) is Annotated for note in get_args(hint)[1:]):
        if isinstance(note, OptionsOf):
            known |= {k: v for k, v in note.schema(target, keyword_only).items() if k not in known and k not in without}
    return known


def take(known: Schema, values: Mapping[str, Any], owner: str, prefix: str | None = None) -> dict[str, Any]:
    """What was given, checked and as the right types; nothing is filled in.

    For the errors `owner` is whose options they are, and `prefix` what stands before their names in `--set`, if any.

    >>> take({"width": Option("width", int, 64)}, {"width": Word("32")}, "lstm")
    {'width': 32}
    """
    before = prefix or ""
    check_names(known, values, owner, before)
    if missing := [name for name, option in known.items() if option.required and name not in values]:
        add = "" if prefix is None else "--set "
        raise Error(f"{owner} needs {' and '.join(missing)}. Add {' '.join(f'{add}{before}{m}=…' for m in missing)}.")
    label = before if owner == before.removesuffix(".") else f"{owner}: "
    return {name: known[name].read(value, f"{label}{name}") for name, value in values.items()}


def check_names(known: Collection[str], names: Collection[str], owner: str, before: str = "") -> None:
    """Raises for the first name that is none of the known ones."""
    for name in names:
        if name not in known:
            if not known:
                raise Error(f"{owner} takes no settings, got {before}{name}. Leave it out.")
            raise UnknownName(f"setting of {owner}", f"{before}{name}", [f"{before}{each}" for each in known])


def checked(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """The function, its `Annotated` arguments checked and brought to the types they declare before each call.

    >>> @checked
    ... def runs(seeds: Annotated[int, at_least(1), "How many there are."]): return seeds
    >>> runs(3.0)
    3
    """

    @wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        bound = inspect.signature(function).bind(*args, **kwargs)
        known = schema(function)
        for name, value in bound.arguments.items():
            if name in known and known[name].line:
                bound.arguments[name] = known[name].read(value, name)
        return function(*bound.args, **bound.kwargs)

    return call


def check_fields(part: Any, before: str = "", kind: str = "kind") -> None:
    """Checks a frozen dataclass's fields and brings them to their types; `kind`: what a field named kind is called."""
    for name, option in schema(type(part)).items():
        object.__setattr__(part, name, option.read(getattr(part, name), before + (kind if name == "kind" else name)))


def word_of(setting: str, example: str = "model.width=64") -> tuple[str, Word]:
    """A `NAME=VALUE` of the command line, in two.

    >>> word_of("model.width=64")
    ('model.width', '64')
    """
    name, equals, text = setting.partition("=")
    if not (name.strip() and equals):
        raise Error(f"A setting is NAME=VALUE, got {setting!r}. For example --set {example}.")
    return name.strip(), Word(text.strip())


def apart(text: str, example: str = "model.width=64") -> tuple[str, dict[str, Word]]:
    """A name, which may be a path with spaces, and the options behind it.

    >>> apart("transformer position=alibi layers=2")
    ('transformer', {'position': 'alibi', 'layers': '2'})
    """
    words = text.split()
    first = next((i for i, word in enumerate(words) if i and "=" in word), len(words))
    name = " ".join(words[:first]) if first < len(words) else text.strip()
    return name, dict(word_of(word, example) for word in words[first:])


def value_of(text: str) -> Any:
    """What a word means where nothing says what it should: JSON, `none` for None, a list where there are commas.

    >>> value_of("64"), value_of("1e-3"), value_of("2,50"), value_of("none"), value_of("true"), value_of("softmax")
    (64, 0.001, [2, 50], None, True, 'softmax')
    """
    if text.lower() in ("none", "null"):
        return None
    if text in ("True", "False"):
        return text == "True"
    try:
        return json.loads(text)
    except ValueError:
        return [value_of(part) for part in text.split(",")] if "," in text else str(text)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return REQUIRED if field.default is dataclasses.MISSING else field.default


def option_of(name: str, hint: Any, default: Any = REQUIRED) -> Option:
    """Returns the option that an annotated parameter or field is."""
    kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    bounds = next((note for note in notes if isinstance(note, Bounds)), None)
    line = next((note for note in reversed(notes) if isinstance(note, str)), "")
    return Option(name, kind, default, bounds, line)


def _optional(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind)


IN_WORDS = {int: "a whole number", float: "a number", str: "a text", Any: "any value"}


def _in_words(kind: Any) -> str:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is tuple and Ellipsis not in parts:
        return f"{'two' if len(parts) == 2 else len(parts)} {_plural(parts[0])}"
    if origin in (list, tuple, Sequence):
        return f"a list of {_plural(parts[0])}"
    return IN_WORDS.get(kind, getattr(kind, "__name__", str(kind)))


def _plural(kind: Any) -> str:
    return _in_words(kind).removeprefix("a ").replace("list of", "lists of") + ("" if get_origin(kind) else "s")


def _fitted(value: Any, kind: Any) -> Any:
    """`value` as a `kind`: 3.0 is the whole number 3, a tuple is a list, and True is no number."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is Literal and any(type(value) is type(word) and value == word for word in parts):
        return value
    if kind in (int, float) and isinstance(value, Real) and not isinstance(value, bool):
        # The remainder of infinity and of NaN is NaN; NaN itself is in no bounds.
        if abs(value) < 10**308 or value in (inf, -inf) if kind is float else value % 1 == 0:  # pyright: ignore[reportOperatorIssue]
            return kind(value)  # pyright: ignore[reportArgumentType]
    elif origin in (list, tuple, Sequence) and not isinstance(value, str):
        values = value.tolist() if hasattr(value, "tolist") else value if isinstance(value, (list, tuple)) else None
        if values is not None and origin is tuple and Ellipsis not in parts:
            if len(values) == len(parts):
                return tuple(_fitted(each, part) for each, part in zip(values, parts, strict=True))
        elif values is not None:
            return (tuple if origin is tuple else list)(_fitted(each, parts[0]) for each in values)
    elif inspect.isclass(kind) and kind not in (int, float) and isinstance(value, kind):
        return str(value) if kind is str else value
    raise _Misfit
