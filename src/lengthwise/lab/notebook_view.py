"""Notebook display of runs: a table of finished runs, live lines of progress for the others."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..notebooks import html_table
from .experiment import TextSpec
from .statistics import perplexities, ranges, score
from .tested_lengths import lengths_of

if TYPE_CHECKING:
    from ..train import Progress
    from .experiment import Experiment
    from .job import Outcome
    from .records import Run

REDRAWN_EVERY = 0.2
"""Seconds between two drawings of the progress."""


def runs_table(runs: Iterable[Run]) -> str:
    """A row for each run, with its accuracy, or its perplexity, over the lengths trained on and over the others."""
    head = ["data", "model", "seed", "run", "trained on", "accuracy or perplexity"]
    return html_table(head, [_row(run) for run in runs], "At the last step. report.table(runs) says more.")


def _row(run: Run) -> list[str]:
    e = run.experiment
    about = [e.data.name, e.model.name, str(e.seed), run.path.name]
    if isinstance(e.data, TextSpec):
        before = perplexities(run, "before") if e.from_checkpoint else {}
        first = {n: f"{perplexity:.4g} → " for n, perplexity in before.items()}
        cells = [f"perplexity {first.get(n, '')}{value:.4g} at {n:,}" for n, value in perplexities(run).items()]
        return [*about, f"windows of {e.data.block}", *cells]
    low, high = e.training.curriculum.lengths
    cells = [f"{100 * score(run, r.lengths):.1f}% at {r.label}" for r in ranges((low, high), e.tests.lengths)]
    which = lengths_of(run)
    return [*about, f"{low}–{high}" + f" ({which})" * bool(which), *cells]


class NotebookProgress:
    """Hears how runs go and keeps one line for each of them up to date, in the output of the notebook's cell."""

    def __init__(self, experiments: Sequence[Experiment]):
        self.lines = {e.hash: [e.data.name, e.model.name, str(e.seed), "waiting for its turn"] for e in experiments}
        self.handle: Any = None
        self._draw()

    def begin(self, experiment: Experiment) -> None:
        self._say(experiment.hash, "starting", at_once=True)

    def advance(self, progress: Progress) -> None:
        loss = f", loss {progress.loss:.4g}" if progress.phase == "train" else ""
        self._say(progress.what, f"{progress.phase}: {progress.step:,}/{progress.steps:,}{loss}")

    def waiting(self, experiment: Experiment) -> None:
        self._say(experiment.hash, "another process is at work on it; waiting", at_once=True)

    def end(self, experiment: Experiment, outcome: Outcome) -> None:
        self._say(experiment.hash, "finished" if outcome.run else f"failed: {outcome.error}", at_once=True)

    def _say(self, run: str, what: str, at_once: bool = False) -> None:
        self.lines[run][-1] = what
        if at_once or time.monotonic() - self.drawn > REDRAWN_EVERY:
            self._draw()

    def _draw(self) -> None:
        from IPython.display import HTML, display  # pyright: ignore[reportMissingImports]

        self.drawn = time.monotonic()
        table = HTML(html_table(["data", "model", "seed", "progress"], list(self.lines.values())))
        if self.handle is None:
            self.handle = display(table, display_id=True)
        else:
            self.handle.update(table)
