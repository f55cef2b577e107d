"""`lengthwise cliff`: up to which length is a checkpoint usable?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import at_least
from . import console
from .eval import Loaded
from .typed import read_place
from .verb import Typed, verb
from .work import Output


@verb
def cliff(
    models: Annotated[
        list[str],
        "Run directories, or Hugging Face checkpoints: their folders or hub names. Several are compared.",
        Typed("MODEL", argument=True, read=read_place),
    ],
    *,
    corpus: Annotated[
        list[str] | None,
        "stdlib, a file or folder of text, or hf:NAME; repeat it for more.",
        Typed("CORPUS", default="a run's own held-out text"),
    ] = None,
    trained: Annotated[
        int | None,
        at_least(4),
        "The length that longer ones are compared with.",
        Typed(default="a run's own, or max_position_embeddings"),
    ] = None,
    up_to: Annotated[int | None, at_least(4), "The longest length.", Typed(default="4 times the trained one")] = None,
    at_least_: Annotated[
        int | None, at_least(1), "Exit with 1 if a model is not usable up to so many tokens.", Typed(flag="--at-least")
    ] = None,
    windows: Annotated[int, at_least(2), "How many windows of the longest length are read."] = 16,
    needles: Annotated[int, at_least(0), "How many prompts of each length and depth hide a needle; 0: none."] = 10,
    seed: Annotated[int, "Another one draws other prompts."] = 0,
    store: Annotated[Path, "Where the corpus's tokens are kept for the next call.", Typed("DIR")] = Path("runs/text"),
    loading: Loaded,
    output: Output,
) -> None:
    """Up to which length is a checkpoint usable?

    It is usable while its perplexity is not reliably above 1.1 times that with the trained length alone, and it finds
    no fewer facts hidden in prompts (needles) than there. With --convert every model is measured as it is, too.

    Exit codes: 0 fine, 1 a model is not usable up to --at-least tokens, 2 wrong input.

    Example: [bold]lengthwise cliff ./my-llama --corpus book.txt --trained 2048 --at-least 4096 --html cliff.html[/bold]

    Example: [bold]lengthwise cliff ./my-llama --corpus book.txt --convert 'yarn factor=4'[/bold]
    """
    from .. import lab, report

    own = {"trained": trained, "up_to": up_to, "windows": windows, "needles": needles, "seed": seed, "store": store}
    cliffs = []
    with console.stdout_kept(output.as_json):
        for model in models:
            for each in [(), loading.conversions] if loading.conversions else [()]:
                how = {**loading.arguments(), "conversions": each}
                cliffs.append(lab.measure_cliff(model, corpus or (), **how, **own, after=console.remark))
    panels = report.cliff(cliffs)
    output.show(panels, {"models": [each.to_json() for each in cliffs]}, panels[0].finding)
    if at_least_ is not None and min(each.usable for each in cliffs) < at_least_:
        raise typer.Exit(1)
