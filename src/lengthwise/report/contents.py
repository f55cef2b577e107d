"""What a report of some runs shows, as one value that the terminal, the page and the data draw."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..lab.records import Run
from .chosen_settings import Swept, best_of
from .formatting import counted
from .panel import Panel
from .provenance import Code
from .sections import Section, group_runs
from .text_runs import panels_of_text

NAMED = 2
"""Up to so many runs of one code are named in the note, of more only the number is given."""


@dataclass(frozen=True)
class Content:
    """Runs on strings as sections, and every other finding as a panel. With panels, there may be no runs."""

    runs: list[Run]
    """Those that are shown, each once."""
    sections: list[Section]
    panels: list[Panel]
    """Those beside the sections: the sweep, what the caller adds, and what the runs on text are worth."""
    command: str = ""
    """What measured panels that have no runs."""

    @staticmethod
    def of(
        runs: Iterable[Run],
        panels: Iterable[Panel] = (),
        *,
        sweep: Swept = (),
        own_text_panels: bool = True,
        command: str = "",
    ) -> Content:
        """Returns the report of these runs, and of `panels` beside them.

        Of the settings named in `sweep` validation strings choose: only the tests of the chosen ones are shown, and all
        settings in a panel. Without `own_text_panels` the panels given say what runs on text are worth.
        """
        chosen = best_of(runs, sweep)
        unique = list({run.experiment.hash: run for run in chosen.runs}.values())
        on_strings = [run for run in unique if not run.experiment.on_text]
        on_text = [run for run in unique if run.experiment.on_text]
        every = [*chosen.panels, *panels, *(panels_of_text(on_text) if own_text_panels else [])]
        sections = group_runs(on_strings, chosen.notes) if on_strings or not (unique or every) else []
        return Content(unique, sections, every, command)

    @property
    def on_text(self) -> list[Run]:
        return [run for run in self.runs if run.experiment.on_text]

    @property
    def code_note(self) -> str:
        """Says that different code made these runs, that of most runs first; empty where none differs."""
        names: dict[Code, list[str]] = {}
        for section in self.sections:
            task = f"{section.title}, " if len(self.sections) > 1 else ""
            for label, run in section.runs:
                names.setdefault(Code.of(run), []).append(f"{task}{label}, seed {run.experiment.seed}")
        if not any(one.differs(other) for one in names for other in names):
            return ""
        parts = []
        for code, runs in sorted(names.items(), key=lambda item: -len(item[1])):
            few = f" ({'; '.join(runs)})" if len(runs) <= NAMED else ""
            parts.append(f"{counted(len(runs), 'run')}{few} by {code}")
        return f"Not all of these runs were made by the same code: {'; '.join(parts)}."
