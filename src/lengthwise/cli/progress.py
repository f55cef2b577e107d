"""Shows how runs go on: on a terminal a bar per active run and one for all, elsewhere a line at begin and end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Task, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Column

from ..lab.records import RunDirectory
from ..lab.statistics import perplexities, ranges, score
from ..lab.tested_lengths import lengths_of
from ..report.formatting import counted, duration, percent, short_names
from ..report.sections import labelled, task_name

if TYPE_CHECKING:
    from ..lab import Experiment, Outcome, Progress

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
    """Returns what a run is worth: `99.3% at 41–481, 52.1% at 1,000`, or `perplexity 23.8 before, 20.2 after`."""
    if outcome.run is None:
        return "failed, see below"
    e = outcome.experiment
    if values := outcome.run.result.get("answers"):
        return f"{values['metric']} {values['score']:.1f} of {values['questions']:,} questions"
    if e.from_checkpoint:
        before, last = (perplexities(outcome.run, which)[e.tests.lengths[0]] for which in ("before", "last"))
        return f"perplexity {before:.4g} before, {last:.4g} after"
    if e.on_text:
        values = perplexities(outcome.run)
        ends = dict.fromkeys([min(values), max(values)])
        return f"perplexity {', '.join(f'{values[n]:.4g} at {n:,}' for n in ends)}"
    columns = ranges(e.training.curriculum.lengths, e.tests.lengths)
    beyond = [r for r in columns if r.beyond] or columns
    ends = dict.fromkeys([beyond[0], beyond[-1]])
    parts = [f"{percent(score(outcome.run, r.lengths))}% at {r.label}" for r in ends]
    which = lengths_of(outcome.run)
    return ", ".join(parts) + f" ({which})" * bool(which)


class Watch:
    """Hears how runs go on; a `with` block around them. rich counts how fast they are."""

    def __init__(self, experiments: Sequence[Experiment], out: Console, root: Path = Path("runs"), **clock: Any):
        self.runs, self.ended, self.root, self.out = len(experiments), 0, root, out
        self.names = names(experiments)
        self.tokens = {e.hash: e.training.batch * getattr(e.data, "block", 0) for e in experiments}
        """How many tokens of text a step reads."""
        self.drawn = RichProgress(
            # A name wraps; cut, it would be that of another run.
            TextColumn("{task.fields[name]}", markup=False, table_column=Column(overflow="fold")),
            BarColumn(bar_width=20 if out.width >= WIDE else 5),
            TextColumn("{task.fields[at]}", markup=False),
            console=out,
            transient=True,
            disable=not out.is_terminal,
            **clock,
        )
        self.todo = {e.hash: e.training.steps for e in experiments}
        """The steps that are yet to be taken, of runs that are not over."""
        self.all = self._task(visible=False, total=sum(self.todo.values()))
        self.bars: dict[str, Task] = {}
        self.due: dict[str, tuple[float, float]] = {}
        """When a line is due on a run, and how long that was put off."""

    def _task(self, name: str = "", at: str = "", **how: Any) -> Task:
        known = self.drawn.add_task("", name=name, at=at, **how)
        return next(task for task in self.drawn.tasks if task.id == known)

    def __enter__(self):
        self.drawn.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.drawn.stop()

    def begin(self, experiment: Experiment) -> None:
        self._bar(experiment.hash)

    def waiting(self, experiment: Experiment) -> None:
        holder = RunDirectory(self.root, experiment).holder()
        self.say(experiment.hash, f"{holder} is at work on it; what is left comes first")

    def advance(self, progress: Progress) -> None:
        run, step, steps, training = progress.what, progress.step, progress.steps, progress.phase == "train"
        bar = self._bar(run)
        self.drawn.update(bar.id, completed=step, total=steps)
        if training:
            self._count(run, steps - step, heard=run in self.due)
            at = f"step {step:,}/{steps:,}, loss {progress.loss:.4g}"
            if bar.speed:
                tokens = self.tokens[run]
                at += f", {bar.speed * tokens:,.0f} tokens/s" if tokens else f", {bar.speed:.0f} steps/s"
        else:
            at = f"{progress.phase}: {step}/{counted(steps, 'length')}"
        left = self._left()
        self.drawn.update(bar.id, at=at)
        self.drawn.update(self.all.id, at=left, visible=bool(left))
        now, (due, wait) = self.drawn.get_time(), self.due.get(run, (0.0, PATIENCE / 2))
        if run not in self.due or now >= due:
            self.due[run] = now + 2 * wait, 2 * wait
            if self.drawn.disable:
                self.say(run, ", ".join(filter(None, [at, left])))

    def end(self, experiment: Experiment, outcome: Outcome) -> None:
        self.ended += 1
        if bar := self.bars.pop(experiment.hash, None):
            self.drawn.remove_task(bar.id)
        # Of a run on a cluster, whose messages are few, the last steps may not have been heard of.
        self._count(experiment.hash, 0, heard=experiment.hash in self.due and not outcome.found)
        self.todo.pop(experiment.hash, None)
        self.drawn.update(self.all.id, name=f"{self.ended}/{self.runs}", at=self._left())
        name = f"[{self.ended}/{self.runs}] {self.names[experiment.hash]}"
        self.out.print(f"{name}: {'found finished, ' if outcome.found else ''}{verdict(outcome)}", markup=False)

    def say(self, run: str, text: str) -> None:
        self.out.print(f"{self.names[run]}: {text}", markup=False)

    def _bar(self, run: str) -> Task:
        if run not in self.bars:
            self.bars[run] = self._task(self.names[run], "starting", total=None)
        return self.bars[run]

    def _count(self, run: str, todo: int, heard: bool) -> None:
        """Counts what a run has got on; where it began to be heard of is where it was resumed, and no step of now."""
        on = self.todo.get(run, todo) - todo
        self.todo[run] = todo
        if heard and on > 0:
            self.drawn.update(self.all.id, advance=on)
        elif self.all.total is not None:
            self.all.total -= on

    def _left(self) -> str:
        seconds = self.all.time_remaining
        return f"{duration(seconds)} left" + f" for all {self.runs} runs" * (self.runs > 1) if seconds else ""
