"""Runs for other programs: CSV in long form (a row per run, checkpoint and length), and a summary as JSON-like data."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import naming, write_atomically
from ..lab.statistics import CHECKPOINTS, Range, overflowed, summary, wilson
from .panel import Panel
from .sections import Section, SeedGroup, group_runs

if TYPE_CHECKING:
    from ..lab import Run


def write_csv(runs: Iterable[Run], path: str | Path) -> Path:
    """Write the rows to `path` and return it."""
    rows = list(csv_rows(runs))
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return write_text(path, text.getvalue())


def csv_rows(runs: Iterable[Run]) -> Iterator[dict[str, Any]]:
    """The rows as dictionaries."""
    for section in group_runs(runs):
        for group in section.groups:
            for run in group.runs:
                yield from _rows_of(run)


def _rows_of(run: Run) -> Iterator[dict[str, Any]]:
    e, result = run.experiment, run.result
    for checkpoint, scores in result["checkpoints"].items():
        for length, correct in sorted(scores["correct"].items(), key=lambda item: int(item[0])):
            low, high = wilson(correct, result["samples"])
            yield {
                "task": e.task.name,
                "task_params": json.dumps(e.task.params, sort_keys=True),
                "model": e.model.name,
                "model_options": json.dumps(e.model.options, sort_keys=True),
                "seed": e.seed,
                "train_low": e.training.curriculum.lengths[0],
                "train_high": e.training.curriculum.lengths[1],
                "checkpoint": checkpoint,
                "step": scores["step"],
                "length": int(length),
                "samples": result["samples"],
                "correct": correct,
                "overflowed": overflowed([run], [int(length)], checkpoint),
                "accuracy": correct / result["samples"],
                "wilson_low": low,
                "wilson_high": high,
                "majority": result["baseline"][length],
                "parameters": result["parameters"],
                "train_seconds": result["seconds"]["train"],
                "hash": e.hash,
                "run": run.path.name,
            }


def as_data(runs: Iterable[Run], panels: Sequence[Panel] = ()) -> dict[str, Any]:
    """What the terminal's tables say, in numbers, for `--json`.

    `{"tasks": [{"task", "trained_on", "models": [{"label", "runs", "ranges": […]}, …]}, …], "panels": […]}`. With
    panels, there may be no runs.
    """
    runs = list(runs)
    sections = group_runs(runs) if runs or not panels else []
    return {"tasks": [_section(section) for section in sections], "panels": [panel.to_json() for panel in panels]}


def _section(section: Section) -> dict[str, Any]:
    e = section.experiment
    return {
        "task": e.task.name,
        "params": e.task.params,
        "trained_on": list(section.train),
        "samples": e.tests.samples,
        "models": [_group(group, section) for group in section.groups],
    }


def _group(group: SeedGroup, section: Section) -> dict[str, Any]:
    return {
        "label": group.label,
        "model": group.experiment.model.name,
        "options": group.experiment.model.options,
        "seeds": [run.experiment.seed for run in group.runs],
        "parameters": group.first.result["parameters"],
        "training": group.experiment.training.settings(),
        "train_seconds": statistics.fmean(run.result["seconds"]["train"] for run in group.runs),
        "ranges": [_range(group, r) for r in section.ranges],
        "runs": [
            {"path": str(run.path), **{key: run.result[key] for key in ("date", "command", "machine", "seconds")}}
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


def write_text(path: str | Path, text: str) -> Path:
    """Write the whole text or, on any failure, leave the old file; directories are made."""
    path = Path(path)
    with naming(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    return path
