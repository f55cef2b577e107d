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
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ..lab.statistics import summary
from .formatting import count, duration, interval, percent, spread
from .overflow import overflow_note_of_runs
from .provenance import code_note
from .sections import Section, SeedGroup, group_runs
from .text_runs import strings_and_text

if TYPE_CHECKING:
    from ..lab import Run


def table(runs: Iterable[Run]) -> Group:
    """One table per task, and below it how to read it; print it with `rich.print`."""
    runs = list(runs)
    on_strings, from_text = strings_and_text(runs)
    texts = [Text.assemble((f"\n{p.title}\n", "bold"), p.text, (f"\n{p.caption}", "dim")) for p in from_text]
    if from_text and not on_strings:
        return Group(*texts)
    sections = group_runs(on_strings)
    notes = [overflow_note_of_runs({group.label: group.runs for group in section.groups}) for section in sections]
    notes.append(code_note(sections))
    legend = Text(_legend(max(section.seeds for section in sections)), style="dim")
    return Group(*map(_section, sections), *map(Text, filter(None, notes)), legend, *texts)


def _section(section: Section) -> Table:
    several = section.seeds > 1
    grid = Table(
        title=Text.assemble((section.title, "bold"), f": {section.subtitle}"),
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    grid.add_column("model", overflow="fold")
    headings = ["lengths", "last ± std" if several else "last", *["max"] * several, "95% interval", "best valid."]
    for heading in headings:
        grid.add_column(heading, justify="right", no_wrap=True)
    for group in section.groups:
        summaries = [summary(group.runs, r.lengths) for r in section.ranges]
        best = [summary(group.runs, r.lengths, "best") for r in section.ranges]
        columns = [
            [r.label for r in section.ranges],
            [spread(s) for s in summaries],
            *[[percent(s.max) for s in summaries]] * several,
            [interval(s) for s in summaries],
            [spread(s) for s in best],
        ]
        styles = ["", "bold", *[""] * several, "dim", "dim"]
        cells = [Text("\n".join(lines), style=style) for lines, style in zip(columns, styles, strict=True)]
        grid.add_row(_about(group), *cells, end_section=True)
    means = [percent(statistics.fmean(section.baseline[n] for n in r.lengths)) for r in section.ranges]
    grid.add_row("majority answer", "\n".join(r.label for r in section.ranges), "\n".join(means), style="italic")
    return grid


def _about(group: SeedGroup) -> Text:
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
