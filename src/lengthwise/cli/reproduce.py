"""`lengthwise reproduce`: a paper's table or figure, or a recipe in a file, at the size this machine can take."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from . import console, registries
from .typed import SET
from .verb import Typed, verb
from .work import INTERRUPTED, Running, carry_out


@verb
def reproduce(
    *,
    paper: Annotated[
        str,
        "A paper named in `lengthwise list`, or a file that defines recipe(scale), such as studies/NAME.py.",
        Typed("PAPER|FILE", argument=True),
    ],
    table: Annotated[
        str,
        "The paper's table or figure; left out after a file.",
        Typed("[TABLE]", argument=True),
    ] = "",
    scale: Annotated[
        Literal["smoke", "laptop", "overnight", "paper"],
        "smoke: seconds; laptop: minutes to an hour on two cores; overnight: nearer to the published, in hours a row; "
        "paper: the published setting.",
    ] = "laptop",
    only: Annotated[list[str] | None, "Run only this row, or cell 'ROW, COLUMN'; repeat it.", Typed("ROW")] = None,
    settings: Annotated[list[str] | None, "An input of the recipe, such as checkpoint=PATH; repeat it.", SET] = None,
    running: Running,
) -> None:
    """Run a paper's table or figure again, or a recipe in a file.

    Example: [bold]lengthwise reproduce demo parity --scale smoke[/bold]

    At the scale overnight the page is written anew after every row, so that a night's end loses none.

    Example: [bold]lengthwise reproduce studies/tree_and_scan.py --scale smoke[/bold]
    """
    registries.check("recipes", f"{paper} {table}".strip())
    from .. import lab, recipes

    running.join()
    # What is measured for the page is measured here, wherever the runs went.
    chosen = lab.chosen_device("auto" if lab.elsewhere(running.launch) else running.device)
    recipe = recipes.get(paper, table, scale, settings or [])
    recipe = recipe.only(only) if only else recipe
    # One JSON is written, at the end; a page is written anew after every row that took hours.
    by_row = scale == "overnight" and not running.as_json
    left = 0
    for part in recipe.row_by_row() if by_row else [recipe]:
        with console.stdout_kept(running.as_json):
            experiments = part.experiments
        try:
            carry_out(
                experiments,
                running,
                title=recipe.title,
                description=recipe.description,
                panels=lambda runs, part=part: part.panels(runs, chosen),
            )
        except typer.Exit as end:
            if end.exit_code == INTERRUPTED:
                raise
            left = end.exit_code
    if left:
        raise typer.Exit(left)
