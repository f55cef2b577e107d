"""`lengthwise reproduce`: a paper's table or figure, or a recipe in a file, at the size this machine can take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from . import console, registries, typed
from .verb import Typed, verb
from .work import (
    CpusPerRun,
    Device,
    GpusPerRun,
    Launch,
    Log,
    Out,
    Page,
    Strategy,
    Workers,
    carry_out,
    join,
)


@verb
def reproduce(
    paper: Annotated[
        str,
        "A paper named in `lengthwise list`, or a file that defines recipe(scale), such as studies/NAME.py.",
        Typed("PAPER|FILE", argument=True, names=typed.papers),
    ],
    table: Annotated[
        str,
        "The paper's table or figure; left out after a file.",
        Typed("[TABLE]", argument=True, names=typed.recipe_tables),
    ] = "",
    scale: Annotated[
        Literal["smoke", "laptop", "paper"],
        "smoke: seconds; laptop: minutes to an hour on two cores; paper: the published setting.",
    ] = "laptop",
    only: Annotated[list[str] | None, "Run only this row of the table; repeat it for more.", Typed("ROW")] = None,
    settings: Annotated[
        list[str] | None,
        "An input of the recipe, such as checkpoint=PATH; repeat it.",
        Typed("NAME=VALUE", flag="--set", short="-s"),
    ] = None,
    out: Out = Path("runs"),
    workers: Workers = None,
    launch: Launch = None,
    cpus_per_run: CpusPerRun = None,
    gpus_per_run: GpusPerRun = None,
    strategy: Strategy = None,
    device: Device = "auto",
    html: Page = None,
    log: Log = None,
    as_json: console.Json = False,
) -> None:
    """Run a paper's table or figure again, or a recipe in a file.

    Example: [bold]lengthwise reproduce demo parity --scale smoke[/bold]

    Example: [bold]lengthwise reproduce studies/tree_and_scan.py --scale smoke[/bold]
    """
    registries.check("recipes", f"{paper} {table}".strip())
    from .. import lab, recipes

    lab.device_of(device, launch, gpus_per_run)
    # What is measured for the page is measured here, wherever the runs went.
    chosen = lab.chosen_device("auto" if lab.elsewhere(launch) else device)
    others = {"launch": launch, "workers": workers, "cpus_per_run": cpus_per_run, "gpus_per_run": gpus_per_run}
    join(strategy, device, others)
    recipe = recipes.get(paper, table, scale, settings or [])
    recipe = recipe.only(only) if only else recipe
    with console.stdout_kept(as_json):
        experiments = recipe.experiments
    carry_out(
        experiments,
        out=out,
        workers=workers,
        launch=launch,
        cpus_per_run=cpus_per_run,
        gpus_per_run=gpus_per_run,
        strategy=strategy,
        device=device,
        html=html,
        as_json=as_json,
        log=log,
        title=recipe.title,
        description=recipe.description,
        panels=lambda runs: recipe.panels(runs, chosen),
    )
