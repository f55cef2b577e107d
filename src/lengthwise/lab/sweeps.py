"""Settings as they are written, and sweeps: all combinations of some are trained, and validation strings alone choose.

    sweep = {"training.lr": [1e-4, 3e-4, 5e-4], "model.chunk": [2, 3]}
    plan("parity", ["regular-gpt"], sweep=sweep, seeds=3)    # 18 ordinary experiments

`lab/choices.py` has the choosing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from .. import models, tasks
from ..errors import Error, in_words
from ..options import Schema, Word, schema, word_of
from ..own_code import in_full
from ..train.settings import training_options
from .experiment import LengthTests

Settings = Sequence[str] | Mapping[str, Any]
"""`["training.lr=1e-4"]`, or `{"training.lr": 1e-4}`."""
Sweep = Sequence[str] | Mapping[str, Any]
"""`["training.lr=1e-4,3e-4"]`, or `{"training.lr": [1e-4, 3e-4]}`."""

VALIDATED_ON = ("training.lengths", "training.validation_samples")
"""Settings that decide which strings are validated on: their values are not judged alike."""


def parse(settings: Settings) -> dict[str, Any]:
    """`["model.width=64"]` to `{"model.width": "64"}`, a word yet to be read; a mapping is taken as it is."""
    if isinstance(settings, Mapping):
        # A part with a mapping of its own, {"training": {"steps": 500}}, is the same written otherwise.
        nested = {key: value for key, value in settings.items() if isinstance(value, Mapping) and "." not in key}
        flat = {f"{part}.{name}": value for part, inner in nested.items() for name, value in inner.items()}
        parsed = {**{key: value for key, value in settings.items() if key not in nested}, **flat}
    else:
        texts = _texts(settings, 'settings must be texts NAME=VALUE, or a mapping {"training.steps": 500}')
        parsed = dict(word_of(setting) for setting in texts)
    for key in parsed:
        if isinstance(key, str) and "." not in key:
            raise Error(f"A setting is PART.NAME=VALUE, got {key}={parsed[key]}. {_full_name(key)}")
    return parsed


def _texts(value: Any, rule: str) -> Sequence[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not all(isinstance(each, str) for each in texts):
        raise Error(f"{rule}, got {in_words(value)}.")
    return texts


def _full_name(key: str) -> str:
    """The remedy for a setting that lacks its part."""
    parts = {part: settings_of_part(part) for part in ("training", "tests")}
    parts |= {"model": {name: o for model in models.available() for name, o in models.options(model).items()}}
    parts |= {"task": {name: o for task in tasks.available() for name, o in tasks.options(task).items()}}
    for near in [key, *get_close_matches(key, {name for known in parts.values() for name in known}, n=1)]:
        if part := next((part for part, known in parts.items() if near in known), None):
            return f"Did you mean {part}.{near}?"
    return "For example --set model.width=64."


def settings_of_part(part: str) -> Schema:
    """Returns what `training.` or `tests.` settings there are; test lengths have a keyword of their own."""
    return training_options() if part == "training" else schema(LengthTests, without=("lengths", "way"))


def values_of(text: str) -> list[Word]:
    """The values in a text: commas part them, but not those in brackets or quotes.

    >>> values_of("1e-4,3e-4"), values_of("(0.9,0.98),(0.9,0.999)"), values_of("'a,b',c")
    (['1e-4', '3e-4'], ['0.9,0.98', '0.9,0.999'], ['a,b', 'c'])
    """
    parts, part = [], ""
    for piece in text.split(","):
        part += piece
        plain = re.sub(r"\"[^\"]*\"|'[^']*'", "", part)
        if not re.search("[\"']", plain) and all(plain.count(a) == plain.count(b) for a, b in ("()", "[]", "{}")):
            parts.append(Word(_bare(part.strip())))
            part = ""
        else:
            part += ","
    if part:
        raise Error(f"A sweep's values need a partner for every bracket and quote, got {text!r}.")
    return parts


def _bare(part: str) -> str:
    """Without the quotes or round brackets around the whole of it."""
    inner = part[1:-1]
    quoted = len(part) > 1 and part[0] in "\"'" and part[-1] == part[0] and part[0] not in inner
    bracketed = part.startswith("(") and part.endswith(")") and not {"(", ")"} & {*inner}
    return inner if quoted or bracketed else part


def parse_sweep(sweep: Sweep) -> dict[str, list[Any]]:
    """The values of every swept setting by its full name."""
    if isinstance(sweep, Mapping):
        parsed = {key: values_of(v) if isinstance(v, str) else v for key, v in parse(sweep).items()}
    else:
        parsed = {}
        for text in _texts(sweep, 'sweep must be texts NAME=VALUE,VALUE, or a mapping {"training.lr": [1e-3, 3e-4]}'):
            name, equals, values = (part.strip() for part in text.partition("="))
            if not (name and equals):
                raise Error(f"A sweep is NAME=VALUE,VALUE, got {text!r}. For example --sweep training.lr=1e-3,3e-4.")
            if name in parsed:
                raise Error(f"{name} is swept twice. Put all its values into one: {name}=VALUE,VALUE.")
            parsed[name] = values_of(values)
        parse(parsed)
    for name, values in parsed.items():
        values = values.tolist() if hasattr(values, "tolist") else values  # pyright: ignore[reportAttributeAccessIssue]
        if not isinstance(values, (list, tuple)) or len(values) < 2 or "" in values:
            got = ",".join(map(str, values)) if isinstance(values, (list, tuple)) else in_words(values)
            raise Error(
                f"A sweep of {name} needs two values at least, joined by commas, got {got!r}. One goes to --set."
            )
        parsed[name] = list(values)
    return parsed


def check_choosable(names: Iterable[str], fixed: Mapping[str, Any], task: Any) -> None:
    """Refuse settings that are also `fixed`, and those that change what is asked rather than who answers."""
    asked = [each for each in (task if isinstance(task, (list, tuple)) else [task]) if isinstance(each, str)]
    for name in names:
        if not isinstance(name, str):
            raise Error(f"A setting is named by a text, got {in_words(name)}. For example training.lr.")
        if name in fixed:
            raise Error(f"{name} is both set and swept. Leave one of the two out.")
        if name in VALIDATED_ON or any(
            in_full(name, asked).startswith(f"{part}.") for part in ("tests", "task", *asked)
        ):
            raise Error(
                f"{name} is part of the question that is asked, and validation chooses among answers to one question. "
                f"Set it with --set, in a call for each value."
            )
