"""Runs as CSV, in long form: one row per run, checkpoint and length, ready for any other program."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import naming, write_atomically
from ..lab.statistics import overflowed, wilson
from .groups import sections

if TYPE_CHECKING:
    from ..lab import Run


def write_csv(runs: Iterable[Run], path: str | Path) -> Path:
    """Write the rows to `path` and return it."""
    table = list(rows(runs))
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return write(path, text.getvalue())


def rows(runs: Iterable[Run]) -> Iterator[dict[str, Any]]:
    """The rows as dictionaries."""
    for part in sections(runs):
        for group in part.groups:
            for run in group.runs:
                yield from _run(run)


def _run(run: Run) -> Iterator[dict[str, Any]]:
    e, result = run.experiment, run.result
    for checkpoint, found in result["checkpoints"].items():
        for length, correct in sorted(found["correct"].items(), key=lambda item: int(item[0])):
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
                "step": found["step"],
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


def write(path: str | Path, text: str) -> Path:
    """The whole text or the old file: never half of it."""
    path = Path(path)
    with naming(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    return path
