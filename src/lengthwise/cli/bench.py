"""`lengthwise bench`: train models on short strings of a task and test them on long ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import console
from .work import Device, Out, Page, Workers, carry_out


def bench(
    task: Annotated[str, typer.Argument(help="A task by name (see `lengthwise list`), or regex:PATTERN.")],
    model: Annotated[
        list[str],
        typer.Option("--model", "-m", help="A model by name, hf:PATH or module:Class; repeat it for more."),
    ],
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Runs of each model, seeds 0, 1, ….")] = 1,
    train_length: Annotated[int, typer.Option("--train-length", min=1, help="The longest training string.")] = 40,
    test_lengths: Annotated[
        str | None,
        typer.Option(
            "--test-lengths",
            show_default="to 12.5 times the training length",
            help="Such as 41:500:20,1000.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="PART.NAME=VALUE", help="task., model., MODEL., training. or evaluation.…"),
    ] = None,
    out: Out = Path("runs"),
    workers: Workers = None,
    device: Device = "auto",
    html: Page = None,
    as_json: console.Json = False,
) -> None:
    """Train every model on short strings of TASK, test it on long ones.

    Finished runs are found again by what they are, stopped ones go on: to resume, give the same call.

    Example: [bold]lengthwise bench parity -m lstm -m regular-gpt --seeds 3 --set training.steps=500[/bold]
    """
    from .. import lab

    with console.stdout_kept(as_json):
        experiments = lab.plan(
            task, model, seeds=seeds, train_length=train_length, test_lengths=test_lengths, settings=settings or []
        )
    carry_out(experiments, out=out, workers=workers, device=device, html=html, as_json=as_json)
