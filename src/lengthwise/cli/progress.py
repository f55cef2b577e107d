"""How runs are watched: on a terminal a bar per active run, elsewhere plain lines, about ten a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from ..lab.statistics import ranges, score
from ..report.formatting import duration, percent, short_names
from . import console

if TYPE_CHECKING:
    from ..lab import Experiment, Outcome

TRAINING = "train"


def names(experiments: Sequence[Experiment]) -> dict[str, str]:
    """`lstm seed 0`: what each run is called in lines about it, by its hash."""
    called = short_names(e.model.name for e in experiments)
    return {e.hash: f"{called[e.model.name]} seed {e.seed}" for e in experiments}


def verdict(outcome: Outcome) -> str:
    """`99.3% at 41–481, 52.1% at 1,000`: what a finished run is worth."""
    if outcome.run is None:
        return "failed, see below"
    e = outcome.experiment
    columns = ranges(e.training.curriculum.lengths, e.evaluation.lengths)
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

    def __init__(self, experiments: Sequence[Experiment]):
        self.total, self.ended = len(experiments), 0
        self.names = names(experiments)
        # With several tasks at hand the task belongs to a run's name.
        self.several = len({e.task.name for e in experiments}) > 1
        self.paces: dict[str, Pace] = {}

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None: ...

    def name(self, e: Experiment) -> str:
        return f"{e.task.name} {self.names[e.hash]}" if self.several else self.names[e.hash]

    def begin(self, experiment: Experiment) -> None:
        self.paces[experiment.hash] = Pace()

    def ending(self, experiment: Experiment, outcome: Outcome) -> str:
        self.ended += 1
        finished_before = outcome.run is not None and experiment.hash not in self.paces
        return (
            f"[{self.ended}/{self.total}] {self.name(experiment)}: "
            f"{'found finished, ' if finished_before else ''}{verdict(outcome)}"
        )


class Lines(Watch):
    """A line when a run begins, at every tenth of its training, and when it ends."""

    def __init__(self, experiments: Sequence[Experiment], out: Console):
        super().__init__(experiments)
        self.out = out
        self.said: dict[str, object] = {}

    def advance(self, experiment: Experiment, step: int, steps: int, loss: float, phase: str) -> None:
        mark = step * 10 // steps if phase == TRAINING else phase
        first = experiment.hash not in self.said
        if self.said.get(experiment.hash) == mark:
            return
        self.said[experiment.hash] = mark
        pace = self.paces[experiment.hash].say(step, steps) if phase == TRAINING else ""
        if phase == TRAINING and not (first and step < steps / 10):
            self._say(experiment, f"step {step}/{steps}, loss {loss:.4g}{', ' + pace if pace else ''}")
        elif phase == TRAINING:
            self._say(experiment, f"training, {steps} steps")
        else:
            self._say(experiment, f"{phase} checkpoint, {steps} lengths")

    def waiting(self, experiment: Experiment) -> None:
        self._say(experiment, "another process is at work on it; waiting")

    def end(self, experiment: Experiment, outcome: Outcome) -> None:
        self.out.print(self.ending(experiment, outcome), markup=False)

    def _say(self, experiment: Experiment, text: str) -> None:
        self.out.print(f"{self.name(experiment)}: {text}", markup=False)


class Steps:
    """A line at every tenth of a recipe's own work."""

    def __init__(self, out: Console):
        self.out = out
        self.paces: dict[str, Pace] = {}
        self.said: dict[str, int] = {}

    def advance(self, what: str, step: int, steps: int, loss: float) -> None:
        pace = self.paces.setdefault(what, Pace()).say(step, steps)
        if self.said.get(what) != step * 10 // steps:
            self.said[what] = step * 10 // steps
            self.out.print(f"{what}: step {step}/{steps}, loss {loss:.4g}{', ' + pace if pace else ''}", markup=False)


class Bars(Watch):
    """A bar for each active run: model, seed, step, loss, steps a second, time left."""

    def __init__(self, experiments: Sequence[Experiment], out: Console):
        super().__init__(experiments)
        self.progress = Progress(
            TextColumn("{task.fields[name]}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[at]}", markup=False),
            console=out,
            transient=True,
        )
        self.bars: dict[str, TaskID] = {}

    def __enter__(self):
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def begin(self, experiment: Experiment) -> None:
        super().begin(experiment)
        self._bar(experiment)

    def advance(self, experiment: Experiment, step: int, steps: int, loss: float, phase: str) -> None:
        if phase == TRAINING:
            pace = self.paces[experiment.hash].say(step, steps)
            at = f"{step:,}/{steps:,} loss {loss:.4g}{'  ' + pace if pace else ''}"
        else:
            at = f"{phase}: {step}/{steps} lengths"
        self.progress.update(self._bar(experiment), completed=step, total=steps, at=at)

    def waiting(self, experiment: Experiment) -> None:
        self.progress.update(self._bar(experiment), at="another process is at work on it; waiting")

    def end(self, experiment: Experiment, outcome: Outcome) -> None:
        if experiment.hash in self.bars:
            self.progress.remove_task(self.bars.pop(experiment.hash))
        self.progress.console.print(self.ending(experiment, outcome), markup=False)

    def _bar(self, experiment: Experiment) -> TaskID:
        if experiment.hash not in self.bars:
            self.bars[experiment.hash] = self.progress.add_task(
                "", total=None, name=self.name(experiment), at="starting"
            )
        return self.bars[experiment.hash]


def watch(experiments: Sequence[Experiment]) -> Lines | Bars:
    """The watcher for this stderr."""
    out = console.err()
    return (Bars if out.is_terminal else Lines)(experiments, out)
