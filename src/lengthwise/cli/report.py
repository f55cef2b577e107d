"""`lengthwise report`: finished runs as a table, CSV, JSON or a page, from their records alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import console
from .work import page_path, print_panels, tell_other_code


def report_runs(
    runs: Annotated[list[Path], typer.Argument(metavar="PATH", help="Run directories, or directories that hold some.")],
    html: Annotated[Path | None, typer.Option("--html", metavar="PATH", help="Write the page here.")] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write a row per run and test length here.")
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option("--compare", metavar="SETTING", help="Pair runs by seed: training.lr, model.width, model, …"),
    ] = None,
    as_json: console.Json = False,
) -> None:
    """Show finished runs: a table, and on request a page or CSV.

    Example: [bold]lengthwise report runs --html index.html --csv results.csv[/bold]

    Example: [bold]lengthwise report runs --compare training.lr[/bold]
    """
    from .. import lab, report
    from .progress import names

    loaded = lab.load(runs)
    called = names([run.experiment for run in loaded])
    tell_other_code(loaded, lambda experiment: called[experiment.hash], "runs")
    panels = report.compare(loaded, compare) if compare else []
    page = report.html(loaded, page_path(html), panels=panels, beside=runs) if html else None
    rows = report.csv(loaded, csv) if csv else None
    if as_json:
        written = {"page": str(page) if page else None, "csv": str(rows) if rows else None}
        console.emit({**report.data(loaded, panels), **written})
        return
    console.out().print(report.table(loaded))
    print_panels(panels)
    for path in filter(None, (page, rows)):
        console.out().print(f"Wrote {path}", markup=False)
