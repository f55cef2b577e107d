"""What models answered to the questions of SCROLLS: of runs, and as `lab.measure_answers` found it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..files import finite
from ..lab.experiment import AnswersSpec
from ..lab.statistics import perplexities
from .panel import Panel
from .table_panels import text_table

if TYPE_CHECKING:
    from ..lab import MeasuredAnswers, Run

METRICS = (
    "rouge: the geometric mean of ROUGE-1, -2 and -L; f1: of words in common; exact match: of whole answers; each with "
    "the best of a question's references, in percent."
)


def answers_of_runs(runs: Sequence[Run]) -> Panel:
    """One row for each run that was trained to answer."""
    data = [_run(run) for run in runs]
    rows = [
        [
            row["task"],
            f"{row['model']} seed {row['seed']}",
            row["metric"],
            f"{row['score']:.2f}",
            f"{row['questions']:,}",
            "–" if row["perplexity_before"] is None else f"{row['perplexity_before']:.4g}",
            f"{row['perplexity']:.4g}",
        ]
        for row in data
    ]
    caption = (
        f"Of the validation split, by the weights of the best validation loss. {METRICS} Perplexity is that of the "
        "references' tokens, before training and after its last step."
    )
    head = ["task", "model", "metric", "score", "questions", "perplexity before", "after"]
    return text_table("Answers", caption, head, rows, finite(data))


def _run(run: Run) -> dict[str, Any]:
    e, found = run.experiment, run.result["answers"]
    assert isinstance(e.data, AnswersSpec)
    before = perplexities(run, "before")[e.data.block] if "before" in run.result["checkpoints"] else None
    return {
        "task": e.data.task,
        "model": e.model.name,
        "seed": e.seed,
        **found,
        "perplexity_before": before,
        "perplexity": perplexities(run)[e.data.block],
        "path": str(run.path),
    }


def measured_answers(measured: MeasuredAnswers) -> Panel:
    """A row for each task, and the average where all seven are there."""
    rows = [
        [
            task,
            found.metric,
            "–" if found.scores is None else f"{found.scores['score']:.2f}",
            f"{len(found.answers):,}",
        ]
        for task, found in measured.tasks.items()
    ]
    if measured.average is not None:
        rows.append(["average", "", f"{measured.average:.2f}", ""])
    held = " The references of the test split are held by the benchmark's site." if measured.split == "test" else ""
    caption = (
        f"Of {measured.model}: {measured.split} split of {measured.source}, prompts of at most {measured.window:,} "
        f"tokens with their answers. {METRICS}{held}"
    )
    return text_table("SCROLLS", caption, ["task", "metric", "score", "questions"], rows, finite(measured.to_json()))
