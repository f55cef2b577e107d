"""`lengthwise list`: the names the other verbs take, and all that can be set of one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich import box
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from . import console

if TYPE_CHECKING:
    from ..options import Option, Schema


class Entry(NamedTuple):
    """One thing that has options."""

    room: str
    name: str
    line: str
    options: Schema
    example: str


def list_names(
    name: Annotated[
        list[str] | None, typer.Argument(help="A model, task, recipe, position or mixer: all its options.")
    ] = None,
    as_json: console.Json = False,
) -> None:
    """The tasks, models and recipes by name, a line each; or, of one NAME, every option.

    Example: [bold]lengthwise list regular-gpt[/bold]
    """
    if name:
        entries = described(" ".join(name))
        if as_json:
            console.emit([to_json(entry) for entry in entries])
            return
        for entry in entries:
            show(entry)
        return
    from .. import models, recipes, tasks

    rooms = {"tasks": tasks.available(), "models": models.available(), "recipes": recipes.available()}
    if as_json:
        console.emit(rooms)
        return
    for room, lines in rooms.items():
        table = Table(title=room.capitalize(), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
        table.add_column("name", no_wrap=True, style="cyan")
        table.add_column("what it is")
        for each, line in lines.items():
            table.add_row(Text(each), Text(line))
        console.out().print(table)
    console.out().print(
        "A task may also be [cyan]regex:(ab|ba)*[/cyan]; a model [cyan]hf:PATH[/cyan], "
        "[cyan]package.module:Class[/cyan] or [cyan]path/to/file.py:Class[/cyan]. "
        "All options of one: [cyan]lengthwise list NAME[/cyan]; of the training: [cyan]lengthwise list training[/cyan]."
    )


def described(name: str) -> list[Entry]:
    """Everything of this name; there can be a model and a mixer."""
    from .. import mixers, models, positions, recipes, tasks
    from ..errors import UnknownName
    from ..lab import settings_of_part

    entries = []
    if name in models.available() or (":" in name and not name.startswith("regex:")):
        line = models.available().get(name, "A model from outside this library.")
        entries.append(Entry("model", name, line, models.options(name), f"lengthwise bench parity -m {name}"))
    if name in tasks.available() or name.startswith(("regex:", "d-", "tomita-")):
        line = tasks.available().get(name, "")
        entries.append(
            Entry("task", name, line, tasks.options(name), f"lengthwise bench {console.quote(name)} -m lstm")
        )
    if name in recipes.available():
        line, example = recipes.available()[name], f"lengthwise reproduce {name}"
        entries.append(Entry("recipe", name, line, recipes.options(*name.split(" ", 1)), example))
    if name in positions.POSITIONS:
        example = f'positions.get("{name}", width=64, heads=8)'
        entries.append(
            Entry("position", name, _first_line(positions.POSITIONS[name]), positions.options(name), example)
        )
    if name in mixers.MIXERS:
        example = f'mixers.get("{name}", width=64)'
        entries.append(Entry("mixer", name, _first_line(mixers.MIXERS[name]), mixers.options(name), example))
    if name in ("training", "tests"):
        example = "lengthwise bench parity -m lstm"
        line = "What every experiment's training or test can be told."
        entries.append(Entry("settings", name, line, settings_of_part(name), example))
    if not entries:
        known = [*models.available(), *tasks.available(), *recipes.available(), *positions.POSITIONS, *mixers.MIXERS]
        raise UnknownName("name", name, [*known, "training", "tests"])
    return [entry._replace(example=_example(entry)) for entry in entries]


def _first_line(kind: Any) -> str:
    return (getattr(getattr(kind, "func", kind), "__doc__", None) or "").strip().split("\n")[0]


def _example(entry: Entry) -> str:
    """The call, with one or all the required options set."""
    options = [o for o in entry.options.values() if o.required] or list(entry.options.values())[:1]
    if entry.room in ("position", "mixer"):
        return entry.example
    prefix = {"recipe": "", "settings": f"{entry.name}."}.get(entry.room, f"{entry.room}.")
    words = [f"--set {prefix}{o.name}={console.quote(_word(o))}" for o in options]
    return " ".join([entry.example, *words])


def _word(option: Option) -> str:
    """A value as it is typed; what must be given is written in capitals."""
    if option.required:
        return option.name.upper()
    default = option.default
    if isinstance(default, (list, tuple)):
        return ",".join(map(str, default))
    return str(default).lower() if default is None or isinstance(default, bool) else str(default)


def to_json(entry: Entry) -> dict[str, Any]:
    return {
        "room": entry.room,
        "name": entry.name,
        "line": entry.line,
        "options": [option.to_json() for option in entry.options.values()],
        "example": entry.example,
    }


def show(entry: Entry) -> None:
    """Two lines an option, which fit a narrow terminal: name, default and type; then its sentence, indented."""
    out = console.out()
    out.print(f"[bold]{escape(entry.name)}[/bold] ({entry.room})")
    if entry.line:
        out.print(Padding(Text(entry.line), (0, 0, 1, 0)) if out.is_terminal else Text(entry.line))
    for option in entry.options.values():
        default = "must be given" if option.required else f"default {_word(option) or 'none'}"
        out.print(f"[cyan]{option.name}[/cyan]  {escape(option.expected)}; {escape(default)}")
        if option.line:
            out.print(Padding(Text(option.line), (0, 0, 0, 4)) if out.is_terminal else Text(f"    {option.line}"))
    if not entry.options:
        out.print("It takes no options.")
    out.print(f"\nExample: [bold]{escape(entry.example)}[/bold]\n")
