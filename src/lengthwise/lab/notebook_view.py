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
    """A row for each run, with its accuracy over the lengths trained on and over the longer ones."""
    head = ["data", "model", "seed", "trained on", "accuracy there", "first longer lengths", "longest lengths", "run"]
    note = "Accuracy at the last step; of runs on text the perplexity before and after. report.table(runs) says more."
    return html_table(head, [_row(run) for run in runs], note)


def _row(run: Run) -> list[str]:
    e = run.experiment
    first, last = [e.data.name, e.model.name, str(e.seed)], [run.path.name]
    if e.from_checkpoint:
        before, after = (perplexities(run, which)[e.tests.lengths[0]] for which in ("before", "last"))
        return [*first, f"blocks of {e.tests.lengths[0]}", f"perplexity {before:.4g} → {after:.4g}", "", "", *last]
    if isinstance(e.data, TextSpec):
        trained, found = e.data.block, perplexities(run)
        longer = [f"perplexity {found[n]:.4g} at {n:,}" for n in e.tests.lengths if n > trained]
        # What goes on from another run may be tested at other lengths alone.
        shorter = [n for n in e.tests.lengths if n <= trained]
        inside = [f"perplexity {found[n]:.4g}{'' if n == trained else f' at {n:,}'}" for n in shorter]
        columns = [*(inside[-1:] or [""]), *longer[:1], *longer[1:][-1:]]
        return [*first, f"windows of {trained}", *columns, *[""] * (3 - len(columns)), *last]
    low, high = e.training.curriculum.lengths
    every = ranges((low, high), e.tests.lengths)
    inside, beyond = [r for r in every if r.trained], [r for r in every if r.beyond]
    columns = [inside[:1], beyond[:1], beyond[1:][-1:]]
    cells = [", ".join(f"{100 * score(run, r.lengths):.1f}% at {r.label}" for r in some) for some in columns]
    which = lengths_of(run)
    return [*first, f"{low}–{high}" + f" ({which})" * bool(which), *cells, *last]


class NotebookProgress:
    """Hears how runs go and keeps one line for each of them up to date, in the output of the notebook's cell."""

    def __init__(self, experiments: Sequence[Experiment]):
        self.lines = {e.hash: [e.data.name, e.model.name, str(e.seed), "waiting for its turn"] for e in experiments}
        self.drawn = 0.0
        self.handle: Any = None
        self._draw(at_once=True)

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
        self._draw(at_once)

    def _draw(self, at_once: bool) -> None:
        now = time.monotonic()
        if not at_once and now - self.drawn < REDRAWN_EVERY:
            return
        from IPython.display import HTML, display  # pyright: ignore[reportMissingImports]

        self.drawn = now
        shown = HTML(html_table(["data", "model", "seed", "progress"], list(self.lines.values())))
        if self.handle is None:
            self.handle = display(shown, display_id=True)
        else:
            self.handle.update(shown)
