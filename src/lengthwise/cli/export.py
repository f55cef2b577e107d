"""`lengthwise export`: a task's test strings as files that `datasets.load_dataset` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import console, typed


def export(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="A task by name (see `lengthwise list`), or regex:PATTERN.",
            autocompletion=typed.tasks,
        ),
    ],
    lengths: Annotated[
        str, typer.Option("--lengths", metavar="LENGTHS", help="Such as 41:500:20,1000; a split for each.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new or empty directory.")],
    samples: Annotated[
        int,
        typer.Option("--samples", parser=typed.whole("--samples", 1), metavar="N", help="Strings of each length."),
    ] = 512,
    seed: Annotated[
        int, typer.Option("--seed", parser=typed.whole("--seed"), metavar="N", help="The same seed, the same strings.")
    ] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="The task's own settings, as task.NAME=VALUE."),
    ] = None,
    as_json: console.Json = False,
) -> None:
    """Write test strings of TASK, the same that bench tests on, with their answers.

    Example: [bold]lengthwise export parity --lengths 40,100,500 --samples 64 --out parity-data[/bold]
    """
    from .. import lab, tasks
    from ..errors import Error
    from ..lab.grid import parse

    given = parse(settings or [])
    if foreign := [key for key in given if not key.startswith("task.")]:
        raise Error(f"export takes settings of the task alone, as task.NAME=VALUE, got {foreign[0]}.")
    made = tasks.get(task, **{key.removeprefix("task."): value for key, value in given.items()})
    wanted = lab.lengths(lengths)
    directory = tasks.export(made, wanted, samples, out, seed)
    if as_json:
        named = {"task": made.name, "params": made.params, "lengths": wanted, "samples": samples, "seed": seed}
        console.emit({**named, "directory": str(directory)})
        return
    console.out().print(f"Wrote {samples} strings of each of {len(wanted)} lengths to {directory}", markup=False)
