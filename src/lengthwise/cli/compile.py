"""`lengthwise compile`: a machine made into a network that no string was ever shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import at_least
from . import console
from .typed import TaskName, TaskSettings
from .verb import Typed, verb
from .work import named_task


@verb
def compile_(
    task: TaskName,
    out: Annotated[Path, "A new or empty directory for the model.", Typed("DIR")],
    width: Annotated[int | None, at_least(1), "Width of the model; by default it is found."] = None,
    seed: Annotated[int, "The same seed gives the same model."] = 0,
    seconds: Annotated[int, at_least(1), "When to give up."] = 3600,
    settings: TaskSettings = None,
    as_json: console.Json = False,
) -> None:
    """Teach a RegularGPT of discrete nodes the algebra of TASK's machine, from random weights and without a string.

    It exits with 1 where conditions are left that do not hold.

    Example: [bold]lengthwise compile parity --out parity-compiled[/bold]

    Example: [bold]lengthwise compile "regex:(ab|ba)*" --out ab-compiled[/bold]
    """
    made_task = named_task("compile", task, settings or [])
    from ..files import read_json
    from ..limits import need_memory
    from ..verify import compile_machine
    from ..verify.consolidate.compiling import FILE, compiled_before, new_folder

    if compiled_before(out, made_task, width=width, seed=seed):
        data = {"task": made_task.name, "params": made_task.params, **read_json(out / FILE), "directory": str(out)}
        console.answer(as_json, data, f"{out}: it is there already, unchanged.")
        return
    new_folder(out)
    if width:
        what = f"The weights of a model of width {width:,}, and what teaching keeps of them,"
        need_memory(4 * 4 * 12 * width**2, what, "Use a smaller --width.")
    made = compile_machine(made_task, width=width, seed=seed, seconds=seconds, hear=console.remark)
    if made.closed:
        made.save(out)
    folder = str(out) if made.closed else None
    data = {"task": made_task.name, "params": made_task.params, **made.to_json(), "directory": folder}
    last = f"Wrote {out}" if made.closed else "Nothing was written. Raise --seconds or --width"
    console.answer(as_json, data, f"{str(made).capitalize()}.\n{last}.")
    if not made.closed:
        raise typer.Exit(1)
