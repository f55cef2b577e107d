"""`lengthwise list`: the names the other verbs take, and all that can be set of one of them."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import chain
from typing import Annotated, Any

from rich import box
from rich.table import Table
from rich.text import Text

from ..errors import UnknownName
from . import console, registries
from .verb import Typed, verb

CALLS = {"task": "lengthwise bench {} -m lstm", "model": "lengthwise bench parity -m {}"}


@verb
def list_names(
    name: Annotated[
        str | None,
        "A task, model, recipe, position or mixer, or training or tests: shows all its options. Or a table: tasks, "
        "models, recipes, positions, mixers or settings. Or a paper, such as regulargpt: shows its recipes.",
        Typed("NAME", argument=True),
    ] = None,
    table: Annotated[str | None, "The second word of a recipe: demo parity.", Typed("TABLE", argument=True)] = None,
    as_json: console.Json = False,
) -> None:
    """List tasks, models, recipes, positions, mixers and settings by name; or show every option of one NAME.

    Example: [bold]lengthwise list regular-gpt[/bold]
    """
    asked = " ".join(filter(None, (name, table)))
    tables = registries.tables()
    if not asked or asked in tables:
        chosen = {asked: tables[asked]} if asked else tables
        if as_json:
            console.emit(chosen)
            return
        for title, lines in chosen.items():
            show_table(title, lines)
        _say(FOOTER)
        return
    group = {each: line for each, line in tables["recipes"].items() if each.split()[0] == asked}
    entries = described(asked, tables)
    if as_json:
        console.emit([*entries, *(entry for each in group for entry in described(each, tables))])
        return
    for entry in entries:
        show(entry)
    if group:
        show_table("recipes", group)


FOOTER = (
    "A task may also be d-N or regex:(ab|ba)*; a model hf:PATH, package.module:Class or path/to/file.py:Class. All "
    "options of one: lengthwise list NAME, also of training and tests. One table: lengthwise list tasks, models, "
    "recipes, positions, mixers or settings; the recipes of one paper: lengthwise list regulargpt; those of a file of "
    "yours: lengthwise reproduce FILE.py."
)


def described(name: str, tables: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """Everything of this name; there can be a model and a mixer. An unknown name raises before anything is imported."""
    listed = [*tables, *(each.split()[0] for each in tables["recipes"]), *chain.from_iterable(tables.values())]
    line = _line_of_unlisted_task(name)
    if name not in listed and ":" not in name and not line:
        raise UnknownName("name", name, listed)
    entries = registries.entries(name)
    if entries or not (line or ":" in name):
        return entries
    room = "task"
    if not line:
        from torch.nn import Module

        from .. import own_code, tasks

        if not (own_code.is_class(name) and issubclass(own_code.load(name, (Module, tasks.Task)), tasks.Task)):
            room = "model"
    options = registries.options(f"{room}s", name)
    if options is None:
        known = import_module(f"..{room}s", __package__).options(name)
        options = [option.to_json() for option in known.values()]
    call = example(CALLS[room].format(console.quote(name)), f"{room}.", options)
    line = line or f"A {room} from outside this library."
    return [{"room": room, "name": name, "line": line, "options": options, "example": call}]


def example(call: str, prefix: str, options: Sequence[Mapping[str, Any]]) -> str:
    """The call with every option that must be given; with one at least, to show how."""
    required = [option for option in options if option["required"]]
    words = [f"{prefix}{o['name']}={console.quote(_word(example_value(o)))}" for o in required or options[:1]]
    return call + "".join(f" --set {word}" for word in words)


def _line_of_unlisted_task(name: str) -> str:
    """The line of a task that is named by a number or a pattern; empty for other names."""
    if depth := re.fullmatch(r"d-([1-9]\d*)", name):
        return registries.tables()["tasks"]["d-2"].replace("at most 2", f"at most {depth[1]}")
    if name.startswith("regex:"):
        return f"the language of the regular expression {name.removeprefix('regex:')}"
    return ""


def example_value(option: Mapping[str, Any]) -> Any:
    """A value that works; a name in capitals where only the reader knows one."""
    if "default" in option:
        return option["default"]
    if option["choices"]:
        return option["choices"][0]
    return True if "True" in option["type"] else option["name"].upper()


def _word(value: Any) -> str:
    """A value as it is typed after `--set NAME=`. None, True and False are as in Python: 'none' can be a choice."""
    if not isinstance(value, (list, tuple)):
        return str(value)
    return json.dumps(value) if any(isinstance(each, (list, tuple)) for each in value) else ",".join(map(str, value))


def show_table(title: str, lines: Mapping[str, str]) -> None:
    table = Table(title=title.capitalize(), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("name", no_wrap=True, style="cyan")
    table.add_column("what it is")
    for name, line in lines.items():
        table.add_row(Text(name), Text(line))
    console.out().print(table)


def show(entry: Mapping[str, Any]) -> None:
    """Two lines an option, which fit a narrow terminal: name, default and type; then its sentence, indented."""
    out = console.out()
    _say(f"{entry['name']} ({entry['room']})", "    ", style="bold", styled=len(entry["name"]))
    _say(entry["line"])
    if out.is_terminal:
        out.print()
    for option in entry["options"]:
        default = "must be given" if option["required"] else f"default {_word(option['default']) or 'empty'}"
        _say(f"{option['name']}  {option['type']}; {default}", " " * 8, style="cyan", styled=len(option["name"]))
        if option["line"]:
            _say(option["line"], "    ", indent="    ")
    if not entry["options"]:
        out.print("It takes no options.")
    # Whole, for a terminal goes on in the next line by itself, and what is copied from it works.
    out.print(Text.assemble("\nExample: ", (entry["example"], "bold"), "\n"), soft_wrap=True)


def _say(text: str, hang: str = "  ", *, indent: str = "", style: str = "", styled: int = 0) -> None:
    """A paragraph, its first letters in a style; on a terminal the lines after its first begin with `hang`."""
    out = console.out()
    width = max(20, out.width) if out.is_terminal else sys.maxsize
    lines = Text(textwrap.fill(text, width, initial_indent=indent, subsequent_indent=hang, break_on_hyphens=False))
    lines.stylize(style, 0, styled)
    out.print(lines, soft_wrap=True)
