"""`lengthwise list`: the names the other verbs take."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from . import console


def list_names(as_json: console.Json = False) -> None:
    """The tasks, models and recipes by name, a line each.

    Example: [bold]lengthwise list[/bold]
    """
    from .. import models, recipes, tasks

    rooms = {"tasks": tasks.available(), "models": models.available(), "recipes": recipes.available()}
    if as_json:
        console.emit(rooms)
        return
    for room, lines in rooms.items():
        table = Table(title=room.capitalize(), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
        table.add_column("name", no_wrap=True, style="cyan")
        table.add_column("what it is")
        for name, line in lines.items():
            table.add_row(Text(name), Text(line))
        console.out().print(table)
    console.out().print(
        "A task may also be [cyan]regex:(ab|ba)*[/cyan]; a model [cyan]hf:PATH[/cyan], "
        "[cyan]package.module:Class[/cyan] or [cyan]path/to/file.py:Class[/cyan]."
    )
