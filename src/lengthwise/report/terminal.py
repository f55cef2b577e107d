"""Runs as tables in the terminal: a block of rows per model, a row per range of lengths; fits 80 columns.

model                 lengths    last ± std     max     95% interval   best valid.
lstm                     1–40   100.0 ± 0.0   100.0    99.9–100.0     100.0 ± 0.0
53.1k parameters       41–500    98.3 ± 1.2    99.7    98.1–98.5       98.9 ± 1.0
12 s, 3 seeds
majority answer          1–40   50.4
                       41–500   50.1
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group as Stack
from rich.table import Table
from rich.text import Text

from ..lab.statistics import summary
from .groups import Group, Section, sections
from .words import count, duration, interval, overflows_of, percent, spread

if TYPE_CHECKING:
    from ..lab import Run


def table(runs: Iterable[Run]) -> Stack:
    """One table per task, and below it how to read it; print it with `rich.print`."""
    parts = sections(runs)
    said = [overflows_of({group.label: group.runs for group in part.groups}) for part in parts]
    legend = Text(_legend(max(part.seeds for part in parts)), style="dim")
    return Stack(*map(_section, parts), *map(Text, filter(None, said)), legend)


def _section(part: Section) -> Table:
    several = part.seeds > 1
    made = Table(
        title=Text.assemble((part.title, "bold"), f": {part.subtitle}"),
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    made.add_column("model", overflow="fold")
    headings = ["lengths", "last ± std" if several else "last", *["max"] * several, "95% interval", "best valid."]
    for heading in headings:
        made.add_column(heading, justify="right", no_wrap=True)
    for group in part.groups:
        summaries = [summary(group.runs, r.lengths) for r in part.ranges]
        best = [summary(group.runs, r.lengths, "best") for r in part.ranges]
        columns = [
            [r.label for r in part.ranges],
            [spread(s) for s in summaries],
            *[[percent(s.max) for s in summaries]] * several,
            [interval(s) for s in summaries],
            [spread(s) for s in best],
        ]
        styles = ["", "bold", *[""] * several, "dim", "dim"]
        cells = [Text("\n".join(lines), style=style) for lines, style in zip(columns, styles, strict=True)]
        made.add_row(_about(group), *cells, end_section=True)
    means = [percent(statistics.fmean(part.baseline[n] for n in r.lengths)) for r in part.ranges]
    made.add_row("majority answer", "\n".join(r.label for r in part.ranges), "\n".join(means), style="italic")
    return made


def _about(group: Group) -> Text:
    seconds = statistics.fmean(run.result["seconds"]["train"] for run in group.runs)
    seeds = len(group.runs)
    facts = f"{count(group.first.result['parameters'])} parameters\n{duration(seconds)}"
    facts += f", {seeds} seeds" if seeds > 1 else f", seed {group.first.experiment.seed}"
    return Text.assemble((group.label, "bold"), "\n", (facts, "dim"))


def _legend(seeds: int) -> str:
    return (
        "Accuracy in %, the unweighted mean over the lengths of the row. "
        + ("± is the standard deviation over seeds. " if seeds > 1 else "")
        + "last: at the last training step; best valid.: at the best validation. "
        "95% interval: Wilson, over all test strings at the last step. "
        "majority answer: always giving the commonest answer."
    )
