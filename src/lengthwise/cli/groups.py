"""Verbs and groups of verbs as typer has them, with help that shows no Python types."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

from typer.core import TyperCommand, TyperGroup


class Verb(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class Verbs(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


def _without_types(parameters: list[Any]) -> list[Any]:
    """An argument has its name, an option the word for its value, a flag nothing."""
    for each in parameters:
        if each.param_type_name == "argument":
            each.display_type_rich = lambda ctx: None
        elif each.metavar is None and each.is_flag:
            each.metavar = ""
    return parameters


def spread(verb: Callable[..., None]) -> Callable[..., None]:
    """Returns the verb with every field of its parameters that are dataclasses as an option of its own."""
    signature = inspect.signature(verb, eval_str=True)
    kinds: dict[str, Any] = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    parts: dict[str, Any] = {name: kind for name, kind in kinds.items() if is_dataclass(kind)}
    parameters = []
    for name, parameter in signature.parameters.items():
        options = _options(parts[name]) if name in parts else [parameter]
        parameters += [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in options]

    def call(**values: Any) -> None:
        made = {name: part(**{f.name: values.pop(f.name) for f in fields(part)}) for name, part in parts.items()}
        verb(**values, **made)

    call.__name__, call.__doc__ = verb.__name__, verb.__doc__
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    call.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportFunctionMemberAccess]
    return call


def _options(part: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(part, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(part)
    ]
