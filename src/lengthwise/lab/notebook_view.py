"""The progress of runs in a notebook: a line for each, which changes in place."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..notebooks import html_table

if TYPE_CHECKING:
    from ..train import Progress
    from .experiment import Experiment
    from .job import Outcome

REDRAWN_EVERY = 0.2
"""Seconds between two drawings of the progress."""


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
