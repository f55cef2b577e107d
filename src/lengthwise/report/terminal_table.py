"""Runs as tables in the terminal: a block of rows per model, a row per range of lengths.

model                 lengths    last ± std     max     95% interval   best valid.
lstm                     1–40   100.0 ± 0.0   100.0    99.9–100.0     100.0 ± 0.0
53.1k parameters       41–500    98.3 ± 1.2    99.7    98.1–98.5       98.9 ± 1.0
12 s, 3 seeds
majority answer          1–40   50.4
                       41–500   50.1

A terminal too narrow for all of it loses the columns on the right first: a name keeps the room of its longest word.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.jupyter import JupyterMixin
from rich.table import Table
from rich.text import Text

from ..lab.statistics import summary
from .chosen_settings import Swept, parts_of
from .drawing import in_text
from .formatting import count, duration, interval, percent, spread, wrap
from .overflow import overflow_note_of_bench
from .panel import Panel
from .provenance import code_note
from .sections import TOKENS, Section, SeedGroup
from .verdicts import verdict_lines

if TYPE_CHECKING:
    from ..lab import Run

BASELINE = "majority answer"
NAME = 16
"""Room for `53.1k parameters` beside the numbers."""


class Tables(JupyterMixin, Group):
    """What `rich.print` prints with styles, `print` without, and a notebook shows."""

    def __str__(self) -> str:
        console = Console(no_color=True, highlight=False)
        with console.capture() as caught:
            console.print(self)
        return "\n".join(line.rstrip() for line in caught.get().splitlines())


def table(runs: Iterable[Run], *, sweep: Swept = ()) -> Tables:
    """One table per task, and below it how to read it; print it with `rich.print`.

    Of the settings named in `sweep` validation strings choose, and only the tests of the chosen ones are shown.
    """
    sections, panels, _ = parts_of(runs, sweep=sweep)
    texts = map(PanelText, panels)
    if not sections:
        return Tables(*texts)
    notes = verdict_lines(sections)
    notes += [overflow_note_of_bench({group.label: group.runs for group in section.groups}) for section in sections]
    notes.append(code_note(sections))
    legend = Text(_legend(max(section.seeds for section in sections)), style="dim")
    return Tables(*map(SectionTable, sections), *map(Text, filter(None, notes)), legend, *texts)


@dataclass(frozen=True)
class PanelText:
    """A panel in words, as wide as the terminal."""

    panel: Panel

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text.assemble((f"\n{self.panel.title}\n", "bold"), in_text(self.panel, options.max_width))
        yield Text(self.panel.caption, style="dim")


@dataclass(frozen=True)
class SectionTable:
    """The table of a section, as much of it as the terminal has room for; `rich` prints it."""

    section: Section

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = [group.label for group in self.section.groups]
        longest = max(len(word) for name in names for word in name.split())
        needed = min(max(longest, NAME), options.max_width // 2)
        columns = _columns(self.section)
        while len(columns) > 2 and _width(columns) + needed > options.max_width:
            columns.pop()
        yield _table(self.section, columns, max(needed, options.max_width - _width(columns)))
        if left_out := [column.heading for column in _columns(self.section)[len(columns) :]]:
            yield Text(f"A wider window also shows: {', '.join(left_out)}", style="dim")


class Column(NamedTuple):
    heading: str
    style: str
    cells: list[list[str]]
    """One a group: its lines, one a range."""

    @property
    def width(self) -> int:
        return max(len(line) for lines in [[self.heading], *self.cells] for line in lines)


def _width(columns: Sequence[Column]) -> int:
    """What these take beside the names: three spaces before each, and the edges of the table."""
    return sum(3 + column.width for column in columns) + 2


def _columns(section: Section) -> list[Column]:
    """From the most important to the least."""
    several, lengths = section.seeds > 1, [r.lengths for r in section.ranges]
    last = [[summary(group.runs, n) for n in lengths] for group in section.groups]
    best = [[summary(group.runs, n, "best") for n in lengths] for group in section.groups]
    maximum = Column("max", "", [[percent(s.max) for s in row] for row in last])
    return [
        Column(
            "lengths" if section.unit == TOKENS else section.unit, "", [[r.label for r in section.ranges]] * len(last)
        ),
        Column("last ± std" if several else "last", "bold", [[spread(s) for s in row] for row in last]),
        *[maximum] * several,
        Column("95% interval", "dim", [[interval(s) for s in row] for row in last]),
        Column("best valid.", "dim", [[spread(s) for s in row] for row in best]),
    ]


def _table(section: Section, columns: Sequence[Column], room: int) -> Table:
    grid = Table(
        title=Text.assemble((section.title, "bold"), f": {section.subtitle}"),
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    grid.add_column("model", no_wrap=True)
    for column in columns:
        grid.add_column(column.heading, justify="right", no_wrap=True)
    for i, group in enumerate(section.groups):
        cells = [Text("\n".join(column.cells[i]), style=column.style) for column in columns]
        grid.add_row(_about(group, room), *cells, end_section=True)
    means = [percent(statistics.fmean(section.baseline[n] for n in r.lengths)) for r in section.ranges]
    grid.add_row(BASELINE, "\n".join(r.label for r in section.ranges), "\n".join(means), style="italic")
    return grid


def _about(group: SeedGroup, room: int) -> Text:
    seconds = statistics.fmean(run.result["seconds"]["train"] for run in group.runs)
    seeds = len(group.runs)
    about = f", {seeds} seeds" if seeds > 1 else f", seed {group.first.experiment.seed}"
    facts = [f"{count(group.first.result['parameters'])} parameters", f"{duration(seconds)}{about}"]
    facts += [group.note] if group.note else []
    lines = [line for fact in facts for line in wrap(fact, room)]
    return Text.assemble(("\n".join(wrap(group.label, room)), "bold"), "\n", ("\n".join(lines), "dim"))


def _legend(seeds: int) -> str:
    return (
        "Accuracy in %, the unweighted mean over the lengths of the row. "
        + ("± is the standard deviation over seeds. " if seeds > 1 else "")
        + "last: at the last training step; best valid.: at the best validation. "
        "95% interval: Wilson, over all test strings at the last step. "
        "majority answer: always giving the commonest answer."
    )
