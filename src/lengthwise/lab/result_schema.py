"""What result.json and metrics.jsonl hold, with types. A record is checked once, when it is read; nobody checks later.

A shape is an `Is`, an object of shapes (a key with ? may be missing, others may stand beside), or `Each` of one shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..errors import Error, in_words
from .experiment import AnswersSpec, Experiment

MOST = 10**18


class Is(NamedTuple):
    words: str
    holds: Callable[[Any], bool]


class Each(NamedTuple):
    """An object with these keys and no others, or with any, whose values all have one shape."""

    shape: Any
    keys: frozenset[str] | None = None


def _number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) < MOST)


TEXT = Is("a text", lambda value: isinstance(value, str))
FLAG = Is("true, false or null", lambda value: value is None or isinstance(value, bool))
MAYBE_TEXT = Is("a text or null", lambda value: value is None or isinstance(value, str))
WHOLE = Is("a whole number from 0", lambda value: type(value) is int and 0 <= value < MOST)
COUNT = Is("a whole number from 1", lambda value: type(value) is int and 1 <= value < MOST)
NUMBER = Is("a number", _number)
FINITE = Is("a finite number", lambda value: _number(value) and math.isfinite(value))
MAYBE_NUMBER = Is("a number or null", lambda value: value is None or _number(value))
SHARE = Is("a number from 0 to 1", lambda value: _number(value) and 0 <= value <= 1)
SECONDS = Is("a number from 0", lambda value: _number(value) and 0 <= value < MOST)
PLAIN = Is("a text, a number or null", lambda value: value is None or isinstance(value, str) or _number(value))

CODE = {"version": TEXT, "commit": MAYBE_TEXT, "clean": FLAG}
RESULT = {
    "date": TEXT,
    "command": MAYBE_TEXT,
    "steps": WHOLE,
    "parameters": WHOLE,
    "seconds": {"train": SECONDS, "evaluate": SECONDS},
    "machine": Each(PLAIN),
    "code?": CODE,
    "folders?": Each(TEXT),
}
METRICS: dict[str, Any] = {
    "train": {"step": WHOLE, "loss": FINITE, "length?": WHOLE, "accuracy?": SHARE},
    "validation": {"step": WHOLE, "loss": NUMBER, "accuracy?": SHARE},
    "speed": {"step": WHOLE, "tokens_per_second": NUMBER},
    "sample": {"step": WHOLE, "text": TEXT},
}
"""A line of metrics.jsonl, by its `kind`."""


def check_result(result: Mapping[str, Any], experiment: Experiment) -> None:
    """Raises unless the result is one of this experiment."""
    lengths = frozenset(map(str, experiment.tests.lengths))
    if experiment.on_text:

        def measured(value: Any) -> Any:
            by_length = isinstance(value, Mapping) and "losses" in value
            return {"step": WHOLE, **({"losses": Each(MAYBE_NUMBER, lengths)} if by_length else {"perplexity": NUMBER})}

        before = "before" if experiment.from_checkpoint else "before?"
        best = {"step": WHOLE, "validation": {"loss": NUMBER}}
        shape = {**RESULT, "checkpoints": {"last": measured, before: measured, "best?": best}}
        if isinstance(experiment.data, AnswersSpec):
            shape["answers"] = {"metric": TEXT, "score": NUMBER, "questions": WHOLE, "step": WHOLE}
    else:
        # The number of samples is checked before it is asked for.
        scores = Is("a number from 0 to samples", lambda value: _number(value) and 0 <= value <= result["samples"])
        tested = {"step": WHOLE, "correct": Each(scores, lengths), "overflowed?": Each(WHOLE)}
        best = {**tested, "validation?": {"accuracy": NUMBER, "loss": NUMBER}}
        shape = {**RESULT, "samples": COUNT, "baseline": Each(SHARE, lengths)}
        shape["checkpoints"] = {"last": tested, "best": best}
    _fit(result, shape, "")


def check_metrics(lines: Iterable[Any]) -> None:
    """Raises unless these are lines of a run's metrics. Kinds that are not known are left as they are."""
    for number, line in enumerate(lines, 1):
        _fit(line, {"kind": TEXT, "step": WHOLE}, f"line {number}")
        _fit(line, METRICS.get(line["kind"], {}), f"line {number}")


def _fit(value: Any, shape: Any, where: str) -> None:
    shape = shape(value) if callable(shape) else shape
    if isinstance(shape, Is):
        if not shape.holds(value):
            raise Error(f"{where} must be {shape.words}, got {in_words(value):.40}")
        return
    if not isinstance(value, Mapping):
        raise Error(f"{where} must be an object, got {in_words(value):.40}")
    before = f"{where}." if where else ""
    if isinstance(shape, Each):
        if shape.keys is not None and (odd := value.keys() ^ shape.keys):
            raise Error(f"{where} {'has' if min(odd) in value else 'lacks'} {min(odd):.40}")
        for key, part in value.items():
            _fit(part, shape.shape, before + key)
        return
    for key, part in shape.items():
        name = key.removesuffix("?")
        if name in value:
            _fit(value[name], part, before + name)
        elif name == key:
            raise Error(f"{before}{name} is missing")
