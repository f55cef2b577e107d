"""What a field of a certificate or of a config may be: of one type and within bounds, or everything is rejected.

    fields("depth", given, {"name": exactly("fixed"), "layers": whole(1)}, {"biases": FLAG})

No field may be missing or unknown. True is no number, and 1 is not true.

Shapes: … of whatever the caller reads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...errors import Error
from .intervals import Array
from .rounding import LARGEST

MOST = 2**31
"""Whole numbers are below it."""


class Rejected(Error):
    """The certificate does not prove what it claims of this model."""

    exit_code = 1


class Kind(NamedTuple):
    """The values that a field may have."""

    words: str
    holds: Callable[[Any], bool]


def exactly(*values: Any) -> Kind:
    texts = [_plain(value) for value in values]
    return Kind(" or ".join(str(value) for value in values), lambda x: _plain(x) in texts)


def whole(least: int = 0) -> Kind:
    return Kind(f"a whole number of at least {least}", lambda x: type(x) is int and least <= x < MOST)


def real(least: float = 0.0, below: float = LARGEST) -> Kind:
    return Kind(f"a number from {least:g} to below {below:g}", lambda x: type(x) in (int, float) and least <= x < below)


def maybe(kind: Kind) -> Kind:
    return Kind(f"{kind.words}, or null", lambda x: x is None or kind.holds(x))


ABOVE_ZERO = Kind("a finite number above 0", lambda x: type(x) in (int, float) and 0 < x < LARGEST)
FLAG = Kind("true or false", lambda x: type(x) is bool)
TEXT = Kind("text", lambda x: type(x) is str)
OBJECT = Kind("an object", lambda x: type(x) is dict)
LIST = Kind("a list that is not empty", lambda x: type(x) is list and len(x) > 0)
OBJECT_OR_LIST = Kind("an object, or a list", lambda x: OBJECT.holds(x) or LIST.holds(x))
TEXTS = Kind("an object of texts", lambda x: OBJECT.holds(x) and all(map(TEXT.holds, x.values())))


def fields(what: str, content: Any, needed: dict[str, Kind], others: dict[str, Kind] | None = None) -> dict[str, Any]:
    """`content`, if it is an object of these fields; `others` may be left out."""
    known = {**needed, **(others or {})}
    if type(content) is not dict or not needed.keys() <= content.keys():
        raise Rejected(f"{what} must be an object of {', '.join(sorted(needed))}.")
    if unknown := content.keys() - known.keys():
        raise Rejected(f"{what} has options that the checker does not know: {', '.join(sorted(unknown)):.80}.")
    for name, value in content.items():
        if not known[name].holds(value):
            raise Rejected(f"{what}: {name} must be {known[name].words}, got {value!r:.60}.")
    return content


def table(content: Any, what: str, dim: int, below: int = MOST, least: int = 0) -> Array:
    """Nested lists of whole numbers, from `least` to `below`, as an array."""
    if not LIST.holds(content):
        raise Rejected(f"{what} must be a list that is not empty, got {content!r:.60}.")
    if dim > 1:
        if not all(LIST.holds(row) and len(row) == len(content[0]) for row in content):
            raise Rejected(f"{what} must be a table whose rows are of one length.")
        return np.stack([table(row, what, dim - 1, below, least) for row in content])
    if not all(type(x) is int and least <= x < below for x in content):
        raise Rejected(f"{what} must be whole numbers from {least} to {below - 1}, got {content!r:.60}.")
    return np.array(content, dtype=np.int64)


def reals(content: Any, what: str, length: int, least: float = -(2.0**50)) -> Array:
    """A list of finite numbers."""
    if type(content) is not list or len(content) != length:
        raise Rejected(f"{what} must be a list of {length} numbers.")
    if not all(type(x) in (int, float) and least <= x < 2.0**50 for x in content):
        raise Rejected(f"{what} must be finite numbers of at least {least:g} and below 2^50.")
    return np.array(content, dtype=np.float64)


def entries(
    content: Any, what: str, needed: dict[str, Kind], others: dict[str, Kind] | None = None
) -> list[dict[str, Any]]:
    """A list, not empty, of objects with these fields; `others` may be left out."""
    if not LIST.holds(content):
        raise Rejected(f"{what} must be a list that is not empty.")
    return [fields(f"each of {what}", entry, needed, others) for entry in content]


def boxes_of(listed: list[dict[str, Any]], width: int) -> tuple[Array, Array]:
    """Centres and radii (N,width)."""
    centre = np.stack([reals(entry["centre"], "a centre", width) for entry in listed])
    return centre, np.stack([reals(entry["radius"], "a radius", width, 0.0) for entry in listed])


def read_json(text: str, what: str) -> Any:
    """JSON without NaN, infinities, and names given twice."""

    def refuse(word: str) -> Any:
        raise Rejected(f"{what}: {word:.20} is no number of a finite size.")

    def integer(word: str) -> int:
        return int(word) if len(word) < 20 else refuse(word)

    def decimal(word: str) -> float:
        return x if math.isfinite(x := float(word)) else refuse(word)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            raise Rejected(f"{what}: a name is given twice in one object.")
        return content

    try:
        return json.loads(text, parse_int=integer, parse_float=decimal, parse_constant=refuse, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{what}: is not JSON ({error}).") from error


def plain_json(content: Any, what: str) -> tuple[str, Any]:
    """As text, and as what is read from that: nothing is in it but what JSON has."""
    try:
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Rejected(f"{what} is JSON with finite numbers alone ({error}).") from error
    return text, read_json(text, what)


def same(a: Any, b: Any) -> bool:
    """True if both are the same JSON, in which true is not 1, and 1 is not 1.0."""
    return _plain(a) == _plain(b)


def _plain(x: Any) -> str:
    return json.dumps(x, sort_keys=True)
