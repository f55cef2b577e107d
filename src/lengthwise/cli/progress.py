"""How runs are watched: on a terminal a bar per active run and one for all, elsewhere a line at begin and end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Column

from ..lab.records import RunDirectory
from ..lab.statistics import perplexities, ranges, score
from ..lab.tested_lengths import lengths_of
from ..report.formatting import counted, duration, percent, short_names
from ..report.sections import labelled, task_name
from . import console

if TYPE_CHECKING:
    from ..lab import Experiment, Outcome, Progress

TRAINING = "train"
PATIENCE = 60.0
"""Seconds after which a run that goes on says so where there is no terminal; twice as many until it does so again."""
WIDE = 80
"""Columns of a terminal; a narrower one needs its room for names."""


def names(experiments: Sequence[Experiment]) -> dict[str, str]:
    """`lstm width=64 seed 0`: what each run is called in lines about it, by its hash; no two are called alike."""
    short = short_names(e.model.name for e in experiments)
    by_data: dict[str, dict[str, Experiment]] = {}
    for e in experiments:
        by_data.setdefault(_about(e), {})[e.hash] = e
    several, called = len(by_data) > 1, {}
    for about, mine in by_data.items():
        # Runs that differ in their seed alone share a label.
        seedless = {hash_: replace(e, seed=0) for hash_, e in mine.items()}
        groups = list({e.hash: e for e in seedless.values()}.values())
        labels = dict(zip((e.hash for e in groups), labelled(groups, short), strict=True))
        prefix = f"{about} " if several else ""
        called |= {h: f"{prefix}{labels[seedless[h].hash]} seed {e.seed}" for h, e in mine.items()}
    # What labels leave out (test lengths) may be all that differs.
    alike = Counter(called.values())
    return {h: name if alike[name] == 1 else f"{name} ({h[:6]})" for h, name in called.items()}


def _about(e: Experiment) -> str:
    return e.data.name if e.on_text else task_name(e.task)


def verdict(outcome: Outcome) -> str:
    """What a finished run is worth: `99.3% at 41–481, 52.1% at 1,000`, or `perplexity 23.8 before, 20.2 after`."""
    if outcome.run is None:
        return "failed, see below"
    e = outcome.experiment
    if found := outcome.run.result.get("answers"):
        return f"{found['metric']} {found['score']:.1f} of {found['questions']:,} questions"
    if e.from_checkpoint:
        before, last = (perplexities(outcome.run, which)[e.tests.lengths[0]] for which in ("before", "last"))
        return f"perplexity {before:.4g} before, {last:.4g} after"
    if e.on_text:
        found = perplexities(outcome.run)
        shown = dict.fromkeys([min(found), max(found)])
        return f"perplexity {', '.join(f'{found[n]:.4g} at {n:,}' for n in shown)}"
    columns = ranges(e.training.curriculum.lengths, e.tests.lengths)
    beyond = [r for r in columns if r.beyond] or columns
    shown = dict.fromkeys([beyond[0], beyond[-1]])
    said = [f"{percent(score(outcome.run, r.lengths))}% at {r.label}" for r in shown]
    which = lengths_of(outcome.run)
    return ", ".join(said) + f" ({which})" * bool(which)


class Pace:
    """Steps and seconds of one run, from where it began to be watched. `tokens`: of text, how many a step reads."""

    def __init__(self, steps: int, tokens: int = 0):
        self.steps, self.tokens = steps, tokens
        self.began: tuple[float, int] | None = None
        self.seconds, self.step, self.done = 0.0, 0, 0

    def advance(self, step: int, now: float) -> None:
        if self.began is None or step < self.step:
            # Its node died, and it went back to its last checkpoint.
            self.began = now, step
        self.seconds, self.step, self.done = now - self.began[0], step, step - self.began[1]

    @property
    def left(self) -> float:
        """Seconds, at the pace so far."""
        return (self.steps - self.step) * self.seconds / self.done if self.done else 0.0

    def __str__(self) -> str:
        if not self.done or not self.seconds > 0:
            return ""
        speed = self.done / self.seconds
        return f"{speed * self.tokens:,.0f} tokens/s" if self.tokens else f"{speed:.0f} steps/s"


class TimeLeft:
    """How long all runs of the call will take yet, by the steps that all of them have taken together.

    Runs side by side take their steps in the same time, so the number of workers is in that pace. When fewer runs are
    left than workers, the slowest of them says how long it takes.
    """

    def __init__(self, experiments: Sequence[Experiment]):
        self.unheard = {e.hash: e.training.steps for e in experiments}
        self.tokens = {e.hash: e.training.batch * getattr(e.data, "block", 0) for e in experiments}
        self.paces: dict[str, Pace] = {}
        self.ended: set[str] = set()
        self.began: float | None = None

    def advance(self, run: str, step: int) -> Pace:
        now = time.monotonic()
        self.began = now if self.began is None else self.began
        if run not in self.paces:
            self.paces[run] = Pace(self.unheard.pop(run), self.tokens[run])
        self.paces[run].advance(step, now)
        return self.paces[run]

    def end(self, run: str, step: int = 0) -> None:
        """The run takes no more steps than `step`: it is over, or was found finished."""
        self.unheard.pop(run, None)
        self.ended.add(run)
        if pace := self.paces.get(run):
            # Of a run on a cluster, whose messages are few, the last steps may not have been heard of.
            pace.done += max(0, step - pace.step)

    @property
    def seconds(self) -> float | None:
        """None: too early to say."""
        done = sum(pace.done for pace in self.paces.values())
        if self.began is None or not done:
            return None
        active = [pace for run, pace in self.paces.items() if run not in self.ended]
        todo = sum(self.unheard.values()) + sum(pace.steps - pace.step for pace in active)
        return max([todo * (time.monotonic() - self.began) / done, *(pace.left for pace in active)])

    def __str__(self) -> str:
        seconds, runs = self.seconds, len(self.unheard) + len(self.paces.keys() | self.ended)
        if not seconds:
            return ""
        return f"{duration(seconds)} left" + (f" for all {runs} runs" if runs > 1 else "")


class Watch:
    """What both watchers do; a `with` block around the runs."""

    def __init__(self, experiments: Sequence[Experiment], out: Console, root: Path = Path("runs")):
        self.total, self.ended, self.root, self.out = len(experiments), 0, root, out
        self.names = names(experiments)
        self.left = TimeLeft(experiments)

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None: ...

    def name(self, e: Experiment) -> str:
        return self.names[e.hash]

    def begin(self, experiment: Experiment) -> None: ...

    def waiting(self, experiment: Experiment) -> None:
        holder = RunDirectory(self.root, experiment).holder()
        self.say(experiment.hash, f"{holder} is at work on it; what is left comes first")

    def end(self, experiment: Experiment, outcome: Outcome) -> None:
        self.ended += 1
        self.left.end(experiment.hash, outcome.run.result["steps"] if outcome.run else 0)
        name = f"[{self.ended}/{self.total}] {self.name(experiment)}"
        self.out.print(f"{name}: {'found finished, ' if outcome.found else ''}{verdict(outcome)}", markup=False)

    def say(self, run: str, text: str) -> None:
        self.out.print(f"{self.names[run]}: {text}", markup=False)


class Lines(Watch):
    """A line when a run begins, one when it ends, and of a long run one after 1, 3, 7, … minutes."""

    def __init__(self, experiments: Sequence[Experiment], out: Console, root: Path = Path("runs")):
        super().__init__(experiments, out, root)
        self.due: dict[str, tuple[float, float]] = {}
        """When a run is due to be heard of again, and how long that was put off."""

    def advance(self, progress: Progress) -> None:
        run, step, steps, training = progress.what, progress.step, progress.steps, progress.phase == TRAINING
        pace = self.left.advance(run, step) if training else ""
        now, (due, wait) = time.monotonic(), self.due.get(run, (0.0, PATIENCE / 2))
        first = run not in self.due
        if not first and now < due:
            return
        self.due[run] = now + 2 * wait, 2 * wait
        if training and not (first and step < steps / 10):
            facts = [f"step {step}/{steps}", f"loss {progress.loss:.4g}", str(pace), str(self.left)]
            self.say(run, ", ".join(filter(None, facts)))
        elif training:
            self.say(run, ", ".join(filter(None, [f"training, {counted(steps, 'step')}", str(self.left)])))
        else:
            self.say(run, f"{progress.phase} checkpoint, {counted(steps, 'length')}")


class Bars(Watch):
    """A bar for each active run: model, seed, step, loss, steps a second; below them the time left for all runs."""

    def __init__(self, experiments: Sequence[Experiment], out: Console, root: Path = Path("runs")):
        super().__init__(experiments, out, root)
        self.drawn = RichProgress(
            # A name wraps; cut, it would be that of another run.
            TextColumn("{task.fields[name]}", markup=False, table_column=Column(overflow="fold")),
            BarColumn(bar_width=20 if out.width >= WIDE else 5),
            TextColumn("{task.fields[at]}", markup=False),
            console=out,
            transient=True,
        )
        self.bars: dict[str, TaskID] = {}

    def __enter__(self):
        self.all = self.drawn.add_task("", total=self.total, name="", at="", visible=False)
        self.drawn.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.drawn.stop()

    def begin(self, experiment: Experiment) -> None:
        self._bar(experiment.hash)

    def advance(self, progress: Progress) -> None:
        run, step, steps = progress.what, progress.step, progress.steps
        if progress.phase == TRAINING:
            at = f"{step:,}/{steps:,} loss {progress.loss:.4g}  {self.left.advance(run, step)}"
        else:
            at = f"{progress.phase}: {step}/{counted(steps, 'length')}"
        self.drawn.update(self._bar(run), completed=step, total=steps, at=at)
        self.drawn.update(self.all, at=str(self.left), visible=bool(str(self.left)))

    def end(self, experiment: Experiment, outcome: Outcome) -> None:
        if experiment.hash in self.bars:
            self.drawn.remove_task(self.bars.pop(experiment.hash))
        super().end(experiment, outcome)
        self.drawn.update(self.all, completed=self.ended, name=f"{self.ended}/{self.total}")

    def _bar(self, run: str) -> TaskID:
        if run not in self.bars:
            self.bars[run] = self.drawn.add_task("", total=None, name=self.names[run], at="starting")
        return self.bars[run]


def watch(experiments: Sequence[Experiment], root: Path) -> Lines | Bars:
    """The watcher for this stderr, of runs whose records are under `root`."""
    out = console.err()
    return (Bars if out.is_terminal else Lines)(experiments, out, root)
