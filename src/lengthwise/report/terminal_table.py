"""Runs in the terminal: the panels of the page without their charts, as wide as the window."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.jupyter import JupyterMixin
from rich.text import Text

from ..lab.records import Run
from .chosen_settings import Swept
from .contents import Content
from .drawing import in_text
from .panel import Panel
from .section_panel import section_panel


class Tables(JupyterMixin, Group):
    """What `rich.print` prints with styles, `print` without, and a notebook shows."""

    def __str__(self) -> str:
        console = Console(no_color=True, highlight=False)
        with console.capture() as caught:
            console.print(self)
        return "\n".join(line.rstrip() for line in caught.get().splitlines())


@dataclass(frozen=True)
class PanelText:
    """A panel in words, as wide as the terminal."""

    panel: Panel

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text.assemble((f"{self.panel.title}\n", "bold"), in_text(self.panel, options.max_width), "\n")
        if self.panel.caption:
            yield Text(self.panel.caption, style="dim")


def table(runs: Iterable[Run], *, sweep: Swept = ()) -> Tables:
    """One table per task, and below them how to read them; print it with `rich.print`.

    Of the settings named in `sweep` validation strings choose, and only the tests of the chosen ones are shown.
    """
    report = Content.of(runs, sweep=sweep)
    # The caption of a section is about its chart, which stands on the page alone.
    of_sections = [PanelText(replace(section_panel(section), caption="")) for section in report.sections]
    legend = [Text(_legend(max(each.seeds for each in report.sections)), style="dim")] if report.sections else []
    code = [Text(note) for note in [report.code_note] if note]
    return Tables(*of_sections, *code, *legend, *map(PanelText, report.panels))


def _legend(seeds: int) -> str:
    return (
        "Accuracy in % at the last training step, the unweighted mean over the lengths of the column. "
        + ("±: standard deviation over seeds; max: the best seed. " if seeds > 1 else "")
        + "95%: Wilson's interval over all test strings. best valid.: at the best validation. "
        "majority answer: always giving the commonest answer."
    )
