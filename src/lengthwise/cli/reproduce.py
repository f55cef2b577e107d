"""`lengthwise reproduce`: a paper's table or figure again, at the size this machine can take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from . import console
from .work import Device, Out, Page, Workers, carry_out


def reproduce(
    paper: Annotated[str, typer.Argument(help="The paper, as in `lengthwise list`.")],
    table: Annotated[str, typer.Argument(help="Its table or figure.")],
    scale: Annotated[
        Literal["smoke", "laptop", "paper"],
        typer.Option("--scale", help="Seconds; minutes to an hour on two cores; the published setting."),
    ] = "laptop",
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="TASK", help="These rows of the table alone; repeat it for more."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="What a recipe needs to be told, such as checkpoint."),
    ] = None,
    out: Out = Path("runs"),
    workers: Workers = None,
    device: Device = "auto",
    html: Page = None,
    as_json: console.Json = False,
) -> None:
    """Run a paper's table or figure again.

    Example: [bold]lengthwise reproduce demo parity --scale smoke[/bold]
    """
    from .. import recipes

    recipe = recipes.get(paper, table, scale, settings or [])
    recipe = recipe.only(only) if only else recipe
    carry_out(
        recipe.experiments,
        out=out,
        workers=workers,
        device=device,
        html=html,
        as_json=as_json,
        title=recipe.title,
        description=recipe.description,
        panels=recipe.panels,
    )
