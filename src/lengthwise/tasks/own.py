"""`path/to/file.py:Class` and `package.module:Class`: a task of your own, any class of `Task`.

`__init__` takes the task's settings. Those annotated with numbers, texts, truths, choices or lists of them are read and
checked as the library's own; what others mean is the class's affair.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from .. import own_code
from ..errors import Error
from ..options import Option, Schema, schema
from .base import Task

REGEX = "regex:"


def is_own(name: str) -> bool:
    """Returns whether the name is that of a class outside this library.

    >>> is_own("mine.py:Copy"), is_own("regex:(ab|ba)*"), is_own("parity")
    (True, False, False)
    """
    return ":" in name and not name.startswith(REGEX)


def name_of(task: Task | type[Task]) -> str | None:
    """The name by which the class of a task is found again; None for those of this library."""
    kind = task if isinstance(task, type) else type(task)
    return None if kind.__module__.startswith(f"{__package__}.") else own_code.name_of(kind)


def options(kind: Callable[..., Task]) -> Schema:
    try:
        known = schema(kind)
    except (NameError, TypeError):
        # Annotations that only a type checker can resolve.
        known = {p.name: Option(p.name, Any, p.default) for p in inspect.signature(kind).parameters.values()}
    return {
        key: option if _readable(option.kind) else Option(key, Any, option.default) for key, option in known.items()
    }


def build(name: str, kind: Callable[..., Task], settings: Mapping[str, Any]) -> Task:
    try:
        return kind(**settings)
    except Error:
        raise
    except Exception as error:
        raise Error(f"{name}: could not be built with {dict(settings) or 'no settings'}: {error}") from error


def _readable(kind: Any) -> bool:
    """Returns whether an annotation is of those that options know."""
    if get_origin(kind) is Annotated:
        return _readable(get_args(kind)[0])
    if kind in (Any, int, float, str, bool, NoneType, Ellipsis) or get_origin(kind) is Literal:
        return True
    return get_origin(kind) in (list, tuple, Sequence, Union, UnionType) and all(map(_readable, get_args(kind)))
