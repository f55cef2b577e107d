"""`lengthwise eval scrolls`: what a model answers, its score, and the file for the benchmark's site."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .. import console
from ..typed import SET, Checkpoint
from ..verb import Typed, verb
from ..work import Output
from .subject import Loaded, Model

if TYPE_CHECKING:
    from ...lab import Answered

HOW = ("window", "budget", "questions", "tokens_at_once")


@dataclass(frozen=True)
class Best(Loaded):
    which: Checkpoint = "best"


@verb
def scrolls(
    model: Model,
    *,
    data: Annotated[
        str | None,
        "A copy of the data set, with TASK/SPLIT.jsonl or TASK.zip in it; or hf:NAME.",
        Typed("FOLDER", default="hf:tau/scrolls"),
    ] = None,
    task: Annotated[
        list[str] | None,
        "A task, such as qasper; repeat it for more.",
        Typed("TASK", default="a run's own, or all seven"),
    ] = None,
    settings: Annotated[list[str] | None, "window, budget, questions or tokens_at_once; repeat it.", SET] = None,
    submission: Annotated[
        Path | None,
        "Answer the test split, and add the answers to this CSV, which the benchmark's site scores.",
        Typed("FILE"),
    ] = None,
    loading: Best,
    output: Output,
) -> None:
    """What a model answers to questions about long inputs, of seven tasks: ROUGE, F1 or exact match.

    A prompt is as long as -s window=… says, and there are as many as -s questions=… says.

    Exit codes: 0 fine, 2 wrong input.

    Example: [bold]lengthwise eval scrolls ./my-llama --data scrolls/ --task qasper -s window=4096[/bold]
    """
    from ... import lab, report
    from ...evaluate.written_answers import write_submission
    from ...options import schema, take, word_of
    from ...text.scrolls import HUB

    known = {name: option for name, option in schema(lab.measure_answers).items() if name in HOW}
    how = take(known, dict(word_of(setting, "window=4096") for setting in settings or []), "scrolls", prefix="")
    missing: list[str] = []

    def keep(name: str, answered: Answered) -> None:
        """Writes what hours have answered into the file before the next task begins."""
        if submission:
            missing[:] = write_submission(submission, {name: answered.answers})

    with console.stdout_kept(output.as_json):
        answers = lab.measure_answers(
            model,
            data or HUB,
            task or [],
            split="test" if submission else "validation",
            **how,
            **loading.arguments(),
            after=lambda name, done, of: console.remark(f"{name}: {done:,} of {of:,} questions"),
            after_task=keep,
        )
    about = {"submission": str(submission), "missing_tasks": missing} if submission else {}
    lacks = f"It still lacks {', '.join(missing)}: the site wants all seven." if missing else "All seven are in it."
    remark = f"Submission: {submission}. {lacks}" if submission else ""
    output.show([report.answers(answers)], {**answers.to_json(), **about}, remark)
