"""`lengthwise eval scrolls`: what a model answers, its score, and the file for the benchmark's site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import console
from .work import page_path, print_panels


def score_answers(
    model: str,
    data: str | None,
    tasks: list[str],
    settings: list[str],
    submission: Path | None,
    html: Path | None,
    as_json: bool,
    shared: dict[str, Any],
) -> None:
    """Score the validation split, or answer the test split and write its file."""
    from .. import lab, report
    from ..evaluate.written_answers import write_submission
    from ..options import schema, take, word_of
    from ..text.scrolls import HUB

    known = {
        name: option
        for name, option in schema(lab.measure_answers).items()
        if name in ("window", "budget", "questions", "tokens_at_once")
    }
    how = take(known, dict(word_of(setting, "window=4096") for setting in settings), "scrolls", prefix="")
    split = "test" if submission else "validation"
    left: list[str] = []

    def keep(task: str, found: lab.Answered) -> None:
        """What hours have answered is in the file before the next task begins."""
        if submission:
            left[:] = write_submission(submission, {task: found.answers})

    with console.stdout_kept(as_json):
        found = lab.measure_answers(
            model, data or HUB, tasks, split=split, **how, **shared, after=_tell_answered, after_task=keep
        )
        panel = report.answers(found)
    page = (
        report.html([], page_path(html), title=panel.title, panels=[panel], command=console.command) if html else None
    )
    if as_json:
        said = {"submission": str(submission), "missing_tasks": left} if submission else {}
        console.emit({**found.to_json(), **said, "page": str(page) if page else None})
        return
    print_panels([panel])
    if submission:
        more = f"It still lacks {', '.join(left)}: the site wants all seven." if left else "All seven tasks are in it."
        console.out().print(f"\nSubmission: {submission}. {more}", markup=False)
    if page:
        console.out().print(f"\nPage: {page}", markup=False)


def _tell_answered(task: str, done: int, of: int) -> None:
    console.remark(f"{task}: {done:,} of {of:,} questions")
