"""`lengthwise bench`: train models on short strings of a task and test them on long ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import console
from .work import Device, Out, Page, Workers, carry_out


def bench(
    context: typer.Context,
    task: Annotated[
        str | None, typer.Argument(help="A task by name (see `lengthwise list`), or regex:PATTERN.", show_default=False)
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="A model by name, hf:PATH or module:Class; repeat it for more."),
    ] = None,
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
        typer.Option("--set", "-s", metavar="PART.NAME=VALUE", help="task., model., MODEL., training. or tests.…"),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="A TOML file that says all of this; what is typed here wins.")
    ] = None,
    save_config: Annotated[
        Path | None, typer.Option("--save-config", help="Write the file that repeats this very call.")
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
    from ..lab.grid import parse
    from ..lab.study import read_study, write_study

    said: dict[str, Any] = {
        "task": task,
        "models": model,
        "seeds": seeds,
        "train_length": train_length,
        "test_lengths": test_lengths,
        "out": str(out),
        "workers": workers,
        "device": device,
        "html": html and str(html),
    }
    with console.stdout_kept(as_json):
        filed = read_study(config) if config else {}
        typed = {name for name in said if _is_typed(context, "model" if name == "models" else name)}
        said |= {name: value for name, value in filed.items() if name not in typed}
        said["settings"] = {**filed.get("settings", {}), **parse(settings or [])}
        for name, word in (("task", "argument 'TASK'"), ("models", "option '--model'")):
            if not said[name]:
                raise typer.BadParameter(f"Missing {word}.", ctx=context)
        plan = {name: said[name] for name in ("seeds", "train_length", "test_lengths", "settings")}
        experiments = lab.plan(said["task"], said["models"], **plan)
        if save_config:
            write_study(save_config, said)
    carry_out(
        experiments,
        out=Path(said["out"]),
        workers=said["workers"],
        device=said["device"],
        html=Path(said["html"]) if said["html"] else None,
        as_json=as_json,
    )


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
