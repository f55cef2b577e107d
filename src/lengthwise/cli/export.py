"""`lengthwise export`: a task's strings as files that `datasets.load_dataset` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from . import console, typed
from .work import named_task


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
        str, typer.Option("--lengths", metavar="LENGTHS", help="Lengths, as in 41:500:20,1000; each becomes a split.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new or empty directory.")],
    samples: Annotated[
        int,
        typer.Option("--samples", parser=typed.whole("--samples", 1), metavar="N", help="Strings of each length."),
    ] = 512,
    seed: Annotated[
        int,
        typer.Option("--seed", parser=typed.whole("--seed"), metavar="N", help="The same seed gives the same strings."),
    ] = 0,
    train: Annotated[
        int,
        typer.Option(
            "--train",
            parser=typed.whole("--train", 0),
            metavar="N",
            help="How many strings to train on are written as well.",
        ),
    ] = 0,
    validation: Annotated[
        int,
        typer.Option(
            "--validation",
            parser=typed.whole("--validation", 0),
            metavar="N",
            help="How many strings to validate with are written as well.",
        ),
    ] = 0,
    train_length: Annotated[
        int,
        typer.Option(
            "--train-length",
            parser=typed.whole("--train-length", 1),
            metavar="N",
            help="The length of the longest of these.",
        ),
    ] = 40,
    format: Annotated[
        Literal["jsonl", "parquet"],
        typer.Option("--format", metavar="FORMAT", help="The format of the files: jsonl or parquet."),
    ] = "jsonl",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="A setting of the task, as task.NAME=VALUE; repeat it."),
    ] = None,
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
    if as_json:
        named = {"task": made.name, "params": made.params, "lengths": wanted, "samples": samples, "seed": seed, **drawn}
        console.emit({**named, "directory": str(directory)})
        return
    beside = "".join(f", {count} for {name}" for name, count in drawn.items() if count)
    said = f"{directory}: it is there already, unchanged."  # else the export was refused
    if new:
        said = f"Wrote {samples} strings of each of {len(wanted)} lengths{beside} to {directory}"
    console.out().print(said, markup=False)
