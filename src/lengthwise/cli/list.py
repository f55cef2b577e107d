"""`lengthwise list`: the names the other verbs take, and all that can be set of one of them."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Mapping
from importlib import import_module
from itertools import chain
from typing import Annotated, Any, NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from ..errors import UnknownName
from . import console, registries
from .verb import Typed, verb

EXAMPLES: dict[str, Any] = {
    "pattern": "(ab|ba)*",
    "delta": [[0, 1], [1, 0]],
    "checkpoint": "gpt2",
    "heads": 8,
    "rows": 512,
    "gamma": 0.9,
    "chunk": 2,
    "p": 1.2,
    "state": 64,
    "order": 2,
    "matrices": 8,
    "steps": 2,
    "values": 2,
    "step_min": 0.001,
    "step_max": 0.1,
    "r_min": 0.5,
    "r_max": 0.99,
    "phase": 6.28,
    "inside": {"name": "learned", "rows": 64},
    "between": {"name": "rope"},
    "ends": [13, 198],
    "back": [30],
    "levels": [{"name": "learned", "rows": 64}, {"name": "rope"}, {"name": "alibi"}],
    "level_ends": [[13], [198]],
    "of": {"name": "rope"},
    "longest": 2048,
}
"""What an example gives for options that must be given and are no choice between words."""


class Entry(NamedTuple):
    """One thing that has options."""

    room: str
    name: str
    line: str
    options: list[dict[str, Any]]
    """As `Option.to_json` has them."""
    call: str
    """What uses it, without its options."""

    @property
    def example(self) -> str:
        """The call with every option that must be given; on the command line with one at least, to show how."""
        required = [option for option in self.options if option["required"]]
        if self.room in PYTHON:
            return self.call + "".join(f", {o['name']}={_in_python(_example_value(o))}" for o in required) + ")"
        prefix = {"recipe": "", "settings": f"{self.name}."}.get(self.room, f"{self.room}.")
        words = [f"{prefix}{o['name']}={console.quote(_word(_example_value(o)))}" for o in required or self.options[:1]]
        return self.call + "".join(f" --set {word}" for word in words)

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("room", "name", "line", "options", "example")}


PYTHON = ("position", "mixer")
"""The rooms whose things are made in Python alone."""


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
    tables = all_tables()
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
        recipes = [entry for each in group for entry in described(each, tables)]
        console.emit([entry.to_json() for entry in [*entries, *recipes]])
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


def all_tables() -> dict[str, dict[str, str]]:
    """Every name with its line, by table."""
    return {table: registries.lines(table) for table in registries.tables()}


def described(name: str, tables: Mapping[str, Mapping[str, str]]) -> list[Entry]:
    """Everything of this name; there can be a model and a mixer. An unknown name raises before anything is imported."""
    listed = [*tables, *(each.split()[0] for each in tables["recipes"]), *chain.from_iterable(tables.values())]
    if name not in listed and ":" not in name and not _line_of_unlisted_task(name):
        raise UnknownName("name", name, listed)
    entries, quoted, own_task = [], console.quote(name), False
    if outside := ":" in name and not name.startswith("regex:"):
        from torch.nn import Module

        from .. import own_code, tasks

        own_task = own_code.is_class(name) and issubclass(own_code.load(name, (Module, tasks.Task)), tasks.Task)
    if name in tables["models"] or (outside and not own_task):
        line = tables["models"].get(name, "A model from outside this library.")
        entries.append(Entry("model", name, line, _options("models", name), f"lengthwise bench parity -m {quoted}"))
    line = "A task from outside this library." if own_task else _line_of_unlisted_task(name)
    if line := tables["tasks"].get(name) or line:
        entries.append(Entry("task", name, line, _options("tasks", name), f"lengthwise bench {quoted} -m lstm"))
    calls = {
        "recipes": f"lengthwise reproduce {name}",
        "positions": f'from lengthwise import positions; positions.get("{name}", width=64, heads=8',
        "mixers": f'from lengthwise import mixers; mixers.get("{name}", width=64',
        "settings": "lengthwise bench parity -m lstm",
    }
    for table, call in calls.items():
        if line := tables[table].get(name):
            room = table if table == "settings" else table.removesuffix("s")
            entries.append(Entry(room, name, line, _options(table, name), call))
    return entries


def _options(table: str, name: str) -> list[dict[str, Any]]:
    """Those that are listed; a name from outside is imported."""
    known = registries.options(table, name)
    if known is None:
        return [option.to_json() for option in import_module(f"..{table}", __package__).options(name).values()]
    return known


def _line_of_unlisted_task(name: str) -> str:
    """The line of a task that is named by a number or a pattern; empty for other names."""
    if depth := re.fullmatch(r"d-([1-9]\d*)", name):
        return registries.lines("tasks")["d-2"].replace("at most 2", f"at most {depth[1]}")
    if name.startswith("regex:"):
        return f"the language of the regular expression {name.removeprefix('regex:')}"
    return ""


def _example_value(option: dict[str, Any]) -> Any:
    """A value that works; a name in capitals where only the reader knows one."""
    if not option["required"]:
        return option["default"]
    if option["name"] in EXAMPLES:
        return EXAMPLES[option["name"]]
    if option["choices"]:
        return option["choices"][0]
    return True if "True" in option["type"] else option["name"].upper()


def _in_python(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


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


def show(entry: Entry) -> None:
    """Two lines an option, which fit a narrow terminal: name, default and type; then its sentence, indented."""
    out = console.out()
    _say(f"{entry.name} ({entry.room})", "    ", style="bold", styled=len(entry.name))
    _say(entry.line)
    if out.is_terminal:
        out.print()
    for option in entry.options:
        default = "must be given" if option["required"] else f"default {_word(option['default']) or 'empty'}"
        _say(f"{option['name']}  {option['type']}; {default}", " " * 8, style="cyan", styled=len(option["name"]))
        if option["line"]:
            _say(option["line"], "    ", indent="    ")
    if not entry.options:
        out.print("It takes no options.")
    # Whole, for a terminal goes on in the next line by itself, and what is copied from it works.
    out.print(Text.assemble("\nExample: ", (entry.example, "bold"), "\n"), soft_wrap=True)


def _say(text: str, hang: str = "  ", *, indent: str = "", style: str = "", styled: int = 0) -> None:
    """A paragraph, its first letters in a style; on a terminal the lines after its first begin with `hang`."""
    out = console.out()
    width = max(20, out.width) if out.is_terminal else sys.maxsize
    lines = Text(textwrap.fill(text, width, initial_indent=indent, subsequent_indent=hang, break_on_hyphens=False))
    lines.stylize(style, 0, styled)
    out.print(lines, soft_wrap=True)
