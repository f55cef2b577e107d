"""Verbs as typer has them, their options read off the same annotations as a model's or a task's.

    @verb
    def export(out: Out, *, samples: Annotated[int, at_least(1), "Strings of each length."] = 512): ...

gives `--samples N`, checked and refused as a setting is. `Typed` says what a name and a type do not: another flag,
a word for the value. Fields of a dataclass that stands among the parameters are options of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from ..options import Option, Word, option_of


class Verb(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class Verbs(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


def _without_types(parameters: list[Any]) -> list[Any]:
    """Help that shows no Python types: an argument has its name, an option the word for its value, a flag nothing."""
    for each in parameters:
        if each.param_type_name == "argument":
            each.display_type_rich = lambda ctx: None
        elif each.metavar is None and each.is_flag:
            each.metavar = ""
    return parameters


@dataclass(frozen=True)
class Typed:
    """The way a value is typed, where its name and type do not say so."""

    metavar: str | None = None
    """The word for the value."""
    default: str = ""
    """What the help says of the default."""
    flag: str = ""
    short: str = ""
    read: Callable[[str], Any] | None = None
    """What reads the word, where its type does not say all."""
    argument: bool = False
    """Whether it is typed without a flag."""
    first: Callable[..., Any] | None = None
    """Called with the context and the value before all others are read, and gives the value."""


def is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def verb(function: Callable[..., None]) -> Callable[..., None]:
    """Returns the function as typer takes it, with an option for every annotated parameter, in its `options`."""
    signature = inspect.signature(function, eval_str=True)
    kinds: dict[str, Any] = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    parts: dict[str, Any] = {name: kind for name, kind in kinds.items() if is_dataclass(kind)}
    every: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        every += _fields_of(parts[name]) if name in parts else [parameter]
    options = {each.name: option_of(each.name, each.annotation, each.default) for each in every}
    parameters = [_parameter(each, options[each.name]) for each in every]

    def call(**values: Any) -> None:
        made = {name: part(**{f.name: values.pop(f.name) for f in fields(part)}) for name, part in parts.items()}
        function(**values, **made)

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    call.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportFunctionMemberAccess]
    call.options = {name: option for name, option in options.items() if option.line}  # pyright: ignore[reportFunctionMemberAccess]
    return call


def _fields_of(part: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(part, include_extras=True)
    defaults = {f.name: inspect.Parameter.empty if f.default is MISSING else f.default for f in fields(part)}
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(name, keyword, default=d, annotation=hints[name]) for name, d in defaults.items()]


def _parameter(parameter: inspect.Parameter, option: Option) -> inspect.Parameter:
    kind, *notes = get_args(parameter.annotation) or [parameter.annotation]
    annotation = parameter.annotation
    if option.line:
        typed = next((note for note in notes if isinstance(note, Typed)), Typed())
        # A text of a union is all that can be typed, and a list of any of these is a flag that is repeated.
        texts = str in option.kinds or Sequence[Any] in option.kinds
        if texts and any(get_origin(each) in (list, Sequence) for each in option.kinds):
            kind = list[str] | None
        elif texts and len(option.kinds) > 1:
            kind = str | None
        annotation = Annotated[kind, _argument(option, typed) if typed.argument else _option(option, typed)]
    default = list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default
    return inspect.Parameter(parameter.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _option(option: Option, typed: Typed) -> Any:
    flag = typed.flag or f"--{option.name.replace('_', '-')}"
    number = int in option.kinds or float in option.kinds
    return typer.Option(
        *filter(None, (flag, typed.short)),
        metavar=typed.metavar or ("N" if number else None if option.kinds == (bool,) else option.name.upper()),
        help=option.line,
        show_default=typed.default or True,
        parser=typed.read or (_parser(option, flag) if number or option.choices else None),
        callback=typed.first,
        is_eager=typed.first is not None,
    )


def _argument(option: Option, typed: Typed) -> Any:
    return typer.Argument(
        metavar=typed.metavar,
        help=option.line,
        show_default=False,
        parser=typed.read or (_parser(option, typed.metavar or option.name.upper()) if option.choices else None),
    )


def _parser(option: Option, label: str) -> Callable[[Any], Any]:
    # None is what stands where nothing is typed.
    needed = replace(option, kind=Union[option.kinds])  # noqa: UP007
    return lambda text: needed.read(Word(text) if isinstance(text, str) else text, label)
