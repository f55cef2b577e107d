"""Runs as JSON-like data for other programs: what the terminal's tables say, and the rows behind it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..lab.statistics import CHECKPOINTS, Range, overflowed, summary
from ..lab.tested_lengths import lengths_of
from .chosen_settings import Swept, best_of
from .long_form import rows
from .panel import Panel
from .provenance import provenance
from .sections import Section, SeedGroup, group_runs
from .text_runs import strings_and_text
from .verdicts import verdict_data

if TYPE_CHECKING:
    from ..lab import Run


def as_data(
    runs: Iterable[Run],
    panels: Sequence[Panel] = (),
    panels_of_text: bool = True,
    *,
    sweep: Swept = (),
    command: str = "",
) -> dict[str, Any]:
    """What the terminal's tables say, in numbers, for `--json`.

    `{"tasks": [{"task", "trained_on", "models": [{"label", "runs", "ranges": […]}, …]}, …], "panels": […], "rows":
    […], "provenance": {…}}`; the rows are those of the CSV. With panels, there may be no runs, and `command` is what
    measured them; without `panels_of_text` they say what runs
    on text are worth. Of the settings named in `sweep` only the chosen ones are among the runs; a panel has all.
    """
    runs, notes, grid = best_of(runs, sweep)
    panels = [*grid, *panels]
    on_strings, from_text = strings_and_text(runs)
    sections = group_runs(on_strings, notes) if on_strings or not (runs or panels) else []
    return {
        "tasks": [_section(section) for section in sections],
        "panels": [panel.to_json() for panel in (*panels, *(from_text if panels_of_text else []))],
        "rows": rows(runs) if runs else [],
        "provenance": provenance(runs, command),
    }


def _section(section: Section) -> dict[str, Any]:
    e = section.experiment
    return {
        "task": e.task.name,
        "params": e.task.params,
        "trained_on": list(section.train),
        "which_lengths": lengths_of(section.groups[0].first),
        "samples": e.tests.samples,
        "models": [_group(group, section) for group in section.groups],
    }


def _group(group: SeedGroup, section: Section) -> dict[str, Any]:
    return {
        "label": group.label,
        "note": group.note,
        "model": group.experiment.model.name,
        "options": group.experiment.model.options,
        "seeds": [run.experiment.seed for run in group.runs],
        "parameters": group.first.result["parameters"],
        "training": group.experiment.training.settings(),
        "train_seconds": statistics.fmean(run.result["seconds"]["train"] for run in group.runs),
        "ranges": [_range(group, r) for r in section.ranges],
        "runs": [
            {
                "path": str(run.path),
                **{key: run.result.get(key) for key in ("date", "command", "code", "machine", "seconds")},
                "verdict": verdict_data(run),
            }
            for run in group.runs
        ],
    }


def _range(group: SeedGroup, r: Range) -> dict[str, Any]:
    return {
        "from": r.lengths[0],
        "to": r.lengths[-1],
        "lengths": len(r.lengths),
        "trained": r.trained,
        "last": asdict(summary(group.runs, r.lengths)),
        "best": asdict(summary(group.runs, r.lengths, "best")),
        "overflowed": {name: overflowed(group.runs, r.lengths, name) for name in CHECKPOINTS},
    }
