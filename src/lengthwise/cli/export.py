"""`lengthwise export`: a task's strings as files that `datasets.load_dataset` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from ..options import at_least
from . import console
from .typed import TaskName, TaskSettings
from .verb import Typed, verb
from .work import named_task


@verb
def export(
    task: TaskName,
    lengths: Annotated[str, "Lengths, as in 41:500:20,1000; each becomes a split.", Typed("LENGTHS")],
    out: Annotated[Path, "A new or empty directory.", Typed("DIR")],
    samples: Annotated[int, at_least(1), "Strings of each length."] = 512,
    seed: Annotated[int, "The same seed gives the same strings."] = 0,
    train: Annotated[int, at_least(0), "How many strings to train on are written as well."] = 0,
    validation: Annotated[int, at_least(0), "How many strings to validate with are written as well."] = 0,
    train_length: Annotated[int, at_least(1), "The length of the longest of these."] = 40,
    format: Annotated[Literal["jsonl", "parquet"], "The format of the files: jsonl or parquet."] = "jsonl",
    settings: TaskSettings = None,
    as_json: console.Json = False,
) -> None:
    """Write the test strings of TASK that bench tests on, with their answers; and strings to train on, if wanted.

    Example: [bold]lengthwise export parity --lengths 40,100,500 --samples 64 --out parity-data[/bold]

    Example: [bold]lengthwise export parity --lengths 100 --train 10000 --validation 500 --out parity-data[/bold]
    """
    from .. import lab, tasks

    made = named_task("export", task, settings or [])
    wanted = lab.lengths(lengths)
    drawn = {"train": train, "validation": validation}
    new = not (out / "README.md").exists()
    directory = tasks.export(made, wanted, samples, out, seed, **drawn, train_lengths=(1, train_length), format=format)
    beside = "".join(f", {count} for {name}" for name, count in drawn.items() if count)
    text = f"{directory}: it is there already, unchanged."  # else the export was refused
    if new:
        text = f"Wrote {samples} strings of each of {len(wanted)} lengths{beside} to {directory}"
    named = {"task": made.name, "params": made.params, "lengths": wanted, "samples": samples, "seed": seed, **drawn}
    console.answer(as_json, {**named, "directory": str(directory)}, text)
