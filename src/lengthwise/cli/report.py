"""`lengthwise report`: finished runs as a table, CSV, JSON or a page, from their records alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import console
from .work import page_path, print_panels, tell_other_code


def report_runs(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or directories that hold some.")],
    html: Annotated[Path | None, typer.Option("--html", help="Write the page here.")] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write a row per run, checkpoint and length here.")] = None,
    as_json: console.Json = False,
) -> None:
    """Show finished runs: a table, and on request a page or CSV.

    Example: [bold]lengthwise report runs --html index.html --csv results.csv[/bold]
    """
    from .. import lab, report
    from ..errors import Error
    from .progress import names

    loaded = lab.load(runs)
    on_strings = [run for run in loaded if not run.experiment.on_text]
    on_text = [run for run in loaded if run.experiment.on_text]
    if csv and not on_strings:
        raise Error("--csv has a row for every test length, and these runs are on text. Use --json.")
    called = names([run.experiment for run in loaded])
    tell_other_code(loaded, lambda experiment: called[experiment.hash], "runs")
    panels = [report.perplexities(on_text)] if on_text else []
    page = report.html(on_strings, page_path(html), panels=panels) if html else None
    rows = report.csv(on_strings, csv) if csv else None
    if as_json:
        written = {"page": str(page) if page else None, "csv": str(rows) if rows else None}
        console.emit({**report.data(on_strings, panels), **written})
        return
    if on_strings:
        console.out().print(report.table(on_strings))
    print_panels(panels)
    for path in filter(None, (page, rows)):
        console.out().print(f"Wrote {path}", markup=False)
