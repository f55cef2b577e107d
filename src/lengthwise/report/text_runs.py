"""What runs on text are worth: the perplexity of held-out text before training and after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .panel import Panel
from .sections import list_of_runs
from .table_panels import text_table

if TYPE_CHECKING:
    from ..lab import Run


def perplexities(runs: Sequence[Run]) -> Panel:
    """One row a run."""
    data = [
        {
            "model": run.experiment.model.name,
            "text": run.experiment.data.name,
            "seed": run.experiment.seed,
            "steps": run.result["steps"],
            **{which: run.result["checkpoints"][which]["perplexity"] for which in ("before", "last")},
            "path": str(run.path),
        }
        for run in runs
    ]
    rows = [
        [
            f"{row['model']} seed {row['seed']}",
            row["text"],
            f"{row['steps']:,}",
            f"{row['before']:.4g}",
            f"{row['last']:.4g}",
        ]
        for row in data
    ]
    caption = "Of held-out text: the checkpoint as it was, and after its training."
    return text_table("Perplexity", caption, ["", "text", "steps", "before", "after"], rows, data)


def strings_and_text(runs: Iterable[Run]) -> tuple[list[Run], list[Panel]]:
    """The runs on strings, which have accuracies by length, and a panel of the others, if there are any."""
    runs = list_of_runs(runs)
    on_text = list({run.experiment.hash: run for run in runs if run.experiment.on_text}.values())
    return [run for run in runs if not run.experiment.on_text], [perplexities(on_text)] if on_text else []
