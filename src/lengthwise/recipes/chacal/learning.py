"""What training looked like: curves over steps, the mean of the seeds, and one line of a table."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ...lab import Run
from ...lab.statistics import summary
from ...report import Panel, line_chart
from ...report.formatting import percent, spread


def validations(run: Run, what: str = "accuracy") -> dict[int, float]:
    """Accuracy or loss on validation strings, by step."""
    return {row["step"]: row[what] for row in run.metrics if row["kind"] == "validation"}


def curve(runs: Sequence[Run], what: str = "accuracy") -> tuple[list[float], list[float]]:
    """Steps, and the mean over runs at each."""
    found = [validations(run, what) for run in runs]
    steps = sorted(set.intersection(*(set(of) for of in found)))
    return [float(s) for s in steps], [statistics.fmean(of[s] for of in found) for s in steps]


def curves(title: str, caption: str, runs: Mapping[str, Sequence[Run]], what: str = "accuracy") -> Panel:
    series = {label: curve(of, what) for label, of in runs.items() if of}
    return line_chart(
        title, caption, "training step", f"{what} on validation strings", series, percent=what == "accuracy"
    )


def ended(runs: Sequence[Run]) -> dict[str, Any]:
    """What these seeds ended at: loss on validation strings, accuracy on test strings, parameters, time."""
    tested = list(runs[0].experiment.evaluation.lengths)
    found = summary(runs, tested)
    return {
        "seeds": len(runs),
        "parameters": runs[0].result["parameters"],
        "loss": statistics.fmean(curve([run], "loss")[1][-1] for run in runs),
        "mean": found.mean,
        "max": found.max,
        "std": found.std,
        "baseline": found.baseline,
        "seconds_a_step": statistics.median(run.result["seconds"]["train"] / run.result["steps"] for run in runs),
        "train_seconds": statistics.fmean(run.result["seconds"]["train"] for run in runs),
        "words": f"{percent(found.max)} / {spread(found)}",
    }


def first_at(runs: Sequence[Run], level: float) -> int | None:
    """The first step at which the mean accuracy on validation strings is at least `level`."""
    steps, values = curve(runs)
    return next((int(step) for step, value in zip(steps, values, strict=True) if value >= level), None)
