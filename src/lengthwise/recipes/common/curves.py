"""How training went: curves over its steps, the mean of the seeds, and the numbers it ended with."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ...lab import Run
from ...lab.statistics import summary
from ...report import Panel, line_chart
from ...report.formatting import percent, spread


def validations(run: Run, what: str = "accuracy") -> dict[int, float]:
    """Accuracy or loss on validation strings, by step; NaN where it was not finite."""
    rows = [row for row in run.metrics if row["kind"] == "validation"]
    return {row["step"]: math.nan if row[what] is None else row[what] for row in rows}


def curve(runs: Sequence[Run], what: str = "accuracy") -> tuple[list[float], list[float]]:
    """Steps, and the mean over runs at each."""
    by_run = [validations(run, what) for run in runs]
    steps = sorted(set.intersection(*map(set, by_run)))
    return [float(s) for s in steps], [statistics.fmean(values[s] for values in by_run) for s in steps]


def curves(title: str, caption: str, runs: Mapping[str, Sequence[Run]], what: str = "accuracy") -> Panel:
    """A panel with a line for each label."""
    series = {label: curve(mine, what) for label, mine in runs.items()}
    return line_chart(
        title, caption, "training step", f"{what} on validation strings", series, percent=what == "accuracy"
    )


def ended(runs: Sequence[Run]) -> dict[str, Any]:
    """What these seeds ended with: loss on validation strings, accuracy on test strings, parameters, time."""
    scores = summary(runs, list(runs[0].experiment.tests.lengths))
    return {
        "seeds": len(runs),
        "parameters": runs[0].result["parameters"],
        "loss": statistics.fmean(curve([run], "loss")[1][-1] for run in runs),
        "mean": scores.mean,
        "max": scores.max,
        "std": scores.std,
        "baseline": scores.baseline,
        "seconds_a_step": statistics.median(run.result["seconds"]["train"] / run.result["steps"] for run in runs),
        "train_seconds": statistics.fmean(run.result["seconds"]["train"] for run in runs),
        "words": f"{percent(scores.max)} / {spread(scores)}",
    }


def beside_published(what: str, accuracies: Mapping[str, tuple[float, float]]) -> str:
    """What came out here and what the paper printed, in %: `Accuracy here (published): ChaCAL 1 99.8 (100.0).`

    `accuracies`: the mean of these runs, a share, and the printed one by label; empty where there is none.
    """
    each = [f"{label} {percent(mean)} ({number:.1f})" for label, (mean, number) in accuracies.items()]
    return f"{what} here (published), in %: {', '.join(each)}." if each else ""


def first_at(runs: Sequence[Run], level: float) -> int | None:
    """The first step at which the mean accuracy on validation strings is at least `level`."""
    steps, values = curve(runs)
    return next((int(step) for step, value in zip(steps, values, strict=True) if value >= level), None)
