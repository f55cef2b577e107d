"""`lengthwise report`: finished runs as a table, CSV, JSON or a page, from their records alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import Error
from ..files import must_exist
from . import console
from .typed import Html
from .verb import Typed, verb
from .work import page_path, print_panels, tell_other_code

if TYPE_CHECKING:
    from ..lab import Found


@verb
def report_runs(
    runs: Annotated[list[Path], "Run directories, or directories that contain some.", Typed("PATH", argument=True)],
    html: Html = None,
    csv: Annotated[Path | None, "Write a CSV file with a row per run and test length.", Typed("FILE")] = None,
    sweep: Annotated[
        str | None,
        "Show each model with the value of these settings that validation chooses; without it all are shown.",
        Typed("NAME,…"),
    ] = None,
    compare: Annotated[
        str | None,
        "Compare the values of a setting by pairs of runs of one seed: training.lr, model, …",
        Typed("SETTING"),
    ] = None,
    markdown: Annotated[bool, "Print tables to paste into Markdown, with intervals; print nothing else."] = False,
    latex: Annotated[bool, "Print tables to paste into LaTeX (booktabs), with intervals; print nothing else."] = False,
    as_json: console.Json = False,
) -> None:
    """Show finished runs as a table; with --html or --csv also as a page or a file.

    A run that is damaged is named and left out; the exit code is then 1.

    Example: [bold]lengthwise report runs --html index.html --csv results.csv[/bold]

    Example: [bold]lengthwise report runs --compare training.lr[/bold]

    Example: [bold]lengthwise report runs --latex > table.tex[/bold]
    """
    finds = _find(runs)
    from .. import lab, report

    loaded = finds.runs
    choices = lab.choose(loaded, sweep.split(",")) if sweep else []
    panels = report.compare(loaded, compare, sweep=choices) if compare else []
    page = report.html(loaded, page_path(html), panels=panels, sweep=choices) if html else None
    rows = report.csv(loaded, csv) if csv else None
    if as_json:
        written = {"page": str(page) if page else None, "csv": str(rows) if rows else None}
        left_out = {"left_out": list(map(str, finds.left_out)), "unfinished": list(map(str, finds.unfinished))}
        console.emit({**report.data(loaded, panels, sweep=choices), **left_out, **written})
    elif markdown or latex:
        text = report.paste(loaded, "latex" if latex else "markdown", panels=panels, sweep=choices)
        console.out().print(text, markup=False, soft_wrap=True)
    else:
        console.out().print(report.table(loaded, sweep=choices))
        print_panels(panels)
        for path in filter(None, (page, rows)):
            console.out().print(f"Wrote {path}", markup=False)
    if finds.left_out:
        raise typer.Exit(1)


def _find(paths: list[Path]) -> Found:
    """Returns the runs in these places, and tells what is left out and what other code made."""
    for path in paths:
        must_exist(path)
    from ..lab import find
    from ..report.formatting import some_of
    from .progress import names

    finds = find(paths)
    if len(finds.left_out) == 1 and not finds.runs:
        raise finds.left_out[0]
    for error in finds.left_out:
        console.remark(f"error: left out: {error}")
    if finds.unfinished:
        runs = "run that is not finished" if len(finds.unfinished) == 1 else "runs that are not finished"
        which = some_of([path.name for path in finds.unfinished], 3)
        console.remark(
            f"note: left out {len(finds.unfinished)} {runs}: {which}. The call that began one goes on with it."
        )
    if not finds.runs:
        raise Error(f"There is nothing to report: none of {len(finds.left_out)} finished runs here can be read.")
    tell_other_code(finds.runs, names([run.experiment for run in finds.runs]), "runs")
    return finds
