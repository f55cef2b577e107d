"""How runs are watched: on a terminal a bar per active run, elsewhere plain lines, about ten a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress

from ..lab.records import RunDirectory
from ..lab.statistics import ranges, score
from ..report.formatting import duration, percent, short_names
from . import console

if TYPE_CHECKING:
    from ..lab import Experiment, Outcome, Progress

TRAINING = "train"


def names(experiments: Sequence[Experiment]) -> dict[str, str]:
    """`lstm seed 0`: what each run is called in lines about it, by its hash."""
    called = short_names(e.model.name for e in experiments)
    return {e.hash: f"{called[e.model.name]} seed {e.seed}" for e in experiments}


def verdict(outcome: Outcome) -> str:
    """What a finished run is worth: `99.3% at 41–481, 52.1% at 1,000`, or `perplexity 23.8 before, 20.2 after`."""
    if outcome.run is None:
        return "failed, see below"
    e = outcome.experiment
    if e.on_text:
        before, last = (outcome.run.result["checkpoints"][which]["perplexity"] for which in ("before", "last"))
        return f"perplexity {before:.4g} before, {last:.4g} after"
    columns = ranges(e.training.curriculum.lengths, e.tests.lengths)
    beyond = [r for r in columns if r.beyond] or columns
    shown = dict.fromkeys([beyond[0], beyond[-1]])
    return ", ".join(f"{percent(score(outcome.run, r.lengths))}% at {r.label}" for r in shown)


class Pace:
    """Steps a second and time left of one run, from where it began to be watched."""

    def __init__(self):
        self.began: tuple[float, int] | None = None

    def say(self, step: int, steps: int) -> str:
        now = time.monotonic()
        if self.began is None:
            self.began = (now, step)
        seconds, done = now - self.began[0], step - self.began[1]
        if done < 1 or seconds <= 0:
            return ""
        left = f", {duration((steps - step) * seconds / done)} left" if step < steps else ""
        return f"{done / seconds:.0f} steps/s{left}"


class Watch:
    """What both watchers do; a `with` block around the runs."""

    def __init__(self, experiments: Sequence[Experiment], root: Path = Path("runs")):
        self.total, self.ended, self.root = len(experiments), 0, root
        self.names = names(experiments)
        # With several tasks at hand the task belongs to a run's name.
        if len({e.data.name for e in experiments}) > 1:
            self.names = {e.hash: f"{e.data.name} {self.names[e.hash]}" for e in experiments}
        self.paces: dict[str, Pace] = {}

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None: ...

    def name(self, e: Experiment) -> str:
        return self.names[e.hash]

    def begin(self, experiment: Experiment) -> None:
        self.paces[experiment.hash] = Pace()

    def was_finished(self, experiment: Experiment) -> bool:
        """Whether nothing was left to do: no work on it was heard of."""
        return experiment.hash not in self.paces

    def held(self, experiment: Experiment) -> str:
        return f"{RunDirectory(self.root, experiment).holder()} is at work on it; what is left comes first"

    def ending(self, experiment: Experiment, outcome: Outcome) -> str:
        self.ended += 1
        finished_before = outcome.run is not None and self.was_finished(experiment)
        return (
            f"[{self.ended}/{self.total}] {self.name(experiment)}: "
            f"{'found finished, ' if finished_before else ''}{verdict(outcome)}"
        )


class Lines(Watch):
    """A line when a run begins, at every tenth of its training, and when it ends."""

    def __init__(self, experiments: Sequence[Experiment], out: Console, root: Path = Path("runs")):
        super().__init__(experiments, root)
        self.out = out
        self.said: dict[str, object] = {}

    def advance(self, progress: Progress) -> None:
        run, step, steps, training = progress.what, progress.step, progress.steps, progress.phase == TRAINING
        mark = step * 10 // steps if training else progress.phase
        first = run not in self.said
        if self.said.get(run) == mark:
            return
        self.said[run] = mark
        pace = self.paces[run].say(step, steps) if training else ""
        if training and not (first and step < steps / 10):
            self._say(run, f"step {step}/{steps}, loss {progress.loss:.4g}{', ' + pace if pace else ''}")
        elif training:
            self._say(run, f"training, {steps} steps")
        else:
            self._say(run, f"{progress.phase} checkpoint, {steps} lengths")

    def waiting(self, experiment: Experiment) -> None:
        self._say(experiment.hash, self.held(experiment))

    def end(self, experiment: Experiment, outcome: Outcome) -> None:
        self.out.print(self.ending(experiment, outcome), markup=False)

    def _say(self, run: str, text: str) -> None:
        self.out.print(f"{self.names[run]}: {text}", markup=False)


class Bars(Watch):
    """A bar for each active run: model, seed, step, loss, steps a second, time left."""

    def __init__(self, experiments: Sequence[Experiment], out: Console, root: Path = Path("runs")):
        super().__init__(experiments, root)
        self.drawn = RichProgress(
            TextColumn("{task.fields[name]}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[at]}", markup=False),
            console=out,
            transient=True,
        )
        self.bars: dict[str, TaskID] = {}

    def __enter__(self):
        self.drawn.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.drawn.stop()

    def begin(self, experiment: Experiment) -> None:
        super().begin(experiment)
        self._bar(experiment.hash)

    def advance(self, progress: Progress) -> None:
        run, step, steps = progress.what, progress.step, progress.steps
        if progress.phase == TRAINING:
            pace = self.paces[run].say(step, steps)
            at = f"{step:,}/{steps:,} loss {progress.loss:.4g}{'  ' + pace if pace else ''}"
        else:
            at = f"{progress.phase}: {step}/{steps} lengths"
        self.drawn.update(self._bar(run), completed=step, total=steps, at=at)

    def waiting(self, experiment: Experiment) -> None:
        self.drawn.console.print(f"{self.name(experiment)}: {self.held(experiment)}", markup=False)

    def end(self, experiment: Experiment, outcome: Outcome) -> None:
        if experiment.hash in self.bars:
            self.drawn.remove_task(self.bars.pop(experiment.hash))
        self.drawn.console.print(self.ending(experiment, outcome), markup=False)

    def _bar(self, run: str) -> TaskID:
        if run not in self.bars:
            self.bars[run] = self.drawn.add_task("", total=None, name=self.names[run], at="starting")
        return self.bars[run]


def watch(experiments: Sequence[Experiment], root: Path) -> Lines | Bars:
    """The watcher for this stderr, of runs whose records are under `root`."""
    out = console.err()
    return (Bars if out.is_terminal else Lines)(experiments, out, root)
