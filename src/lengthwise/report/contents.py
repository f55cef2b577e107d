"""What a report of some runs shows, as one value that the terminal, the page and the data draw."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations

from ..lab.records import Run
from .chosen_settings import Swept, choices_of, chosen_of, grid_panel, note_of
from .formatting import counted
from .panel import Panel
from .provenance import code_of
from .sections import Section, group_runs, list_of_runs
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
        listed = list_of_runs(runs)
        choices = choices_of(listed, sweep)
        unique = list({run.experiment.hash: run for run in chosen_of(listed, choices)}.values())
        notes = {replace(each.chosen.runs[0].experiment, seed=0).hash: note_of(each) for each in choices}
        on_strings = [run for run in unique if not run.experiment.on_text]
        on_text = [run for run in unique if run.experiment.on_text]
        every = [*grid_panel(choices), *panels, *(panels_of_text(on_text) if own_text_panels else [])]
        sections = group_runs(on_strings, notes) if on_strings or not (unique or every) else []
        return Content(unique, sections, every, command)

    @property
    def on_text(self) -> list[Run]:
        return [run for run in self.runs if run.experiment.on_text]

    @property
    def code_note(self) -> str:
        """Says that different code made these runs, that of most runs first; empty where none differs."""
        names: dict[tuple[str | None, str | None, bool | None], list[str]] = {}
        for section in self.sections:
            task = f"{section.title}, " if len(self.sections) > 1 else ""
            for label, run in section.runs:
                names.setdefault(code_of(run), []).append(f"{task}{label}, seed {run.experiment.seed}")
        # What one record leaves open may be the same.
        pairs = [pair for both in combinations(names, 2) for pair in zip(*both, strict=True)]
        if not any(None not in pair and pair[0] != pair[1] for pair in pairs):
            return ""
        parts = []
        for (version, commit, clean), runs in sorted(names.items(), key=lambda item: -len(item[1])):
            few = f" ({'; '.join(runs)})" if len(runs) <= NAMED else ""
            at = f" at commit {commit[:7]}" if commit else ""
            code = f"lengthwise {version or '(version unknown)'}{at}{' with changes' * (clean is False)}"
            parts.append(f"{counted(len(runs), 'run')}{few} by {code}")
        return f"Not all of these runs were made by the same code: {'; '.join(parts)}."
