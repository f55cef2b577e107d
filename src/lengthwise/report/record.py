"""Runs summed up as plain data, for `--json`: what the terminal table says, in numbers."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..lab.statistics import CHECKPOINTS, Range, overflowed, summary
from .groups import Group, Section, sections
from .panel import Panel

if TYPE_CHECKING:
    from ..lab import Run


def as_data(runs: Iterable[Run], panels: Sequence[Panel] = ()) -> dict[str, Any]:
    """`{"tasks": [{"task", "trained_on", "models": [{"label", "runs", "ranges": […]}, …]}, …], "panels": […]}`.

    All JSON-like. There need be no runs where there are panels.
    """
    runs = list(runs)
    parts = sections(runs) if runs or not panels else []
    return {"tasks": [_section(part) for part in parts], "panels": [panel_data(panel) for panel in panels]}


def panel_data(panel: Panel) -> dict[str, Any]:
    return {"title": panel.title, "caption": panel.caption, "data": panel.data}


def _section(part: Section) -> dict[str, Any]:
    e = part.experiment
    return {
        "task": e.task.name,
        "params": e.task.params,
        "trained_on": list(part.train),
        "samples": e.evaluation.samples,
        "models": [_group(group, part) for group in part.groups],
    }


def _group(group: Group, part: Section) -> dict[str, Any]:
    return {
        "label": group.label,
        "model": group.experiment.model.name,
        "options": group.experiment.model.options,
        "seeds": [run.experiment.seed for run in group.runs],
        "parameters": group.first.result["parameters"],
        "training": group.experiment.training.settings(),
        "train_seconds": statistics.fmean(run.result["seconds"]["train"] for run in group.runs),
        "ranges": [_range(group, r) for r in part.ranges],
        "runs": [
            {"path": str(run.path), **{key: run.result[key] for key in ("date", "command", "machine", "seconds")}}
            for run in group.runs
        ],
    }


def _range(group: Group, r: Range) -> dict[str, Any]:
    return {
        "from": r.lengths[0],
        "to": r.lengths[-1],
        "lengths": len(r.lengths),
        "trained": r.trained,
        "last": asdict(summary(group.runs, r.lengths)),
        "best": asdict(summary(group.runs, r.lengths, "best")),
        "overflowed": {name: overflowed(group.runs, r.lengths, name) for name in CHECKPOINTS},
    }
