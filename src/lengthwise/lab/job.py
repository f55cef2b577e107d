"""From an experiment to a finished run: lock, resume, train, evaluate, record."""

from __future__ import annotations

import datetime
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from .. import own_code
from ..errors import Error
from ..files import Tensors
from ..train import Interrupted, Progress, Single, Stacked, Stop, Trainer, TrainState
from ..train.directory import SavedState, read_state
from ..train.lease import TakenOver
from ..train.state import untouched_random
from .experiment import AnswersSpec, Experiment, TaskSpec, TextSpec
from .loggers import Sender
from .material import Material, Scoring, StringMaterial
from .provenance import code_version, machine
from .records import FORMAT, Run, RunDirectory, read_run
from .text_material import AnswerMaterial, TextMaterial

MATERIALS: dict[type, Callable[[Experiment, torch.device, int], Material]] = {
    TaskSpec: StringMaterial,
    TextSpec: TextMaterial,
    AnswersSpec: AnswerMaterial,
}
"""What is read and built for an experiment, and for those that differ from it in seed and rate alone, by its data."""


@dataclass(frozen=True)
class Outcome:
    """The end of an experiment: a run, or an error in one line with its traceback."""

    experiment: Experiment
    run: Run | None = None
    error: str | None = None
    traceback: str | None = None
    exit_code: int = 0
    log: Path | None = None
    """Where the traceback is recorded."""
    found: bool = False
    """True if the run was finished before, and nothing was left to do."""


@dataclass(frozen=True)
class Job:
    """The needs of a worker besides the experiments: where to write and what to run on."""

    root: Path
    device: str = "cpu"
    cpus: float = 1.0
    """Cores that a run takes."""
    gpus: float = 0.0
    """GPUs that a run takes; with 0.25 four runs share one."""
    share: int = 1
    """Processes that share this machine's memory."""
    command: str = ""
    hear: Callable[[Progress], None] | None = None
    stop: Stop = field(default_factory=Stop)
    waiting: Callable[[Experiment], None] | None = None
    """Hears that another process holds the experiment's directory."""
    log: tuple[str, ...] = ()
    """The loggers that runs are sent to, by name."""
    strategy: Single | None = None
    """How a run is spread over several devices; None: it has one."""
    order: Callable[[RunDirectory], None] | None = None
    """Tells the processes that follow what is trained next."""
    own: tuple[tuple[str, str], ...] = ()
    """The code from outside the library, by name and digest, that whoever gives the job was asked to run."""
    code: dict[str, Any] = field(default_factory=lambda: code_version())
    """What runs here, asked when the job begins: by its end the checkout may have moved on."""

    @property
    def quiet(self) -> Job:
        """Returns what of it can be sent to another process."""
        return replace(self, hear=None, waiting=None, stop=Stop())


def room(cpus: float, gpus: float, cores: float, most_gpus: float) -> int:
    """Returns how many runs at a time fit that take so many cpus and gpus, where there are so many.

    >>> room(cpus=2, gpus=0.25, cores=16, most_gpus=1)
    4
    """
    return int(min(cores / cpus, most_gpus / gpus) if gpus else cores / cpus)


def check_room(cpus: float, gpus: float, cores: float, most_gpus: float, there: str) -> None:
    """Raises where a run takes more than there is."""
    for name, takes, most in (("cores", cpus, cores), ("GPUs", gpus, most_gpus)):
        if takes > most:
            raise Error(f"A run shall take {takes:g} {name}, and {there} {most:g}. Ask for fewer.")


class _Held(Exception):
    """Another process is at work in the directory."""


def run_group(experiments: Sequence[Experiment], job: Job, *, wait: bool = True) -> list[Outcome]:
    """Run experiments that can go together (or one alone); failures become outcomes, `Interrupted` passes through.

    What another process is at work on is waited for or, without `wait`, has no outcome.
    """
    own_code.allow(job.own)
    for earlier in {e.continues.hash: e.continues for e in experiments if e.continues is not None}.values():
        (outcome,) = run_group([earlier], replace(job, hear=None))
        if outcome.run is None:
            why = Error(f"The run that it goes on from failed: {outcome.error}")
            return [failure(RunDirectory(job.root, experiment), why) for experiment in experiments]
    directories = [RunDirectory(job.root, experiment) for experiment in experiments]
    try:
        with ExitStack() as stack:
            # In the order of their names, so that two processes cannot each hold what the other waits for.
            ours = {d.path for d in sorted(directories, key=lambda d: d.path) if _hold(stack, d, job, wait)}
            directories = [d for d in directories if d.path in ours]
            todo = [d for d in directories if not d.finished()]
            for directory in directories:
                if directory not in todo:
                    directory.tidy()
            saved = [directory.start() for directory in todo]
            senders = [stack.enter_context(Sender(d, job.log)) for d in directories] if job.log else []
            for sender in senders:
                sender.begin()
            if job.order:
                list(map(job.order, todo))
            if todo:
                stack.enter_context(using_threads(todo[0].experiment.training.threads))
                for material, directory, state, strategy in _trained(todo, saved, job):
                    _finish(material, directory.experiment, state, strategy, job)
            runs = [read_run(d.path) for d in directories]
            for sender, run in zip(senders, runs, strict=False):
                sender.end(run)
        made = {directory.path for directory in todo}
        return [Outcome(run.experiment, run, found=run.path not in made) for run in runs]
    except Interrupted:
        raise
    except TakenOver as taken:
        print(f"note: {taken}", file=sys.stderr)
        return run_group(experiments, job) if wait else []
    except Exception as error:
        if len(experiments) > 1:
            # One run's failure is not the others': each goes on alone from its own checkpoint.
            return [outcome for experiment in experiments for outcome in run_group([experiment], job, wait=wait)]
        return [failure(directories[0], error)]


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """A block in which torch has so many threads: sums over more are rounded in another order."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _hold(stack: ExitStack, directory: RunDirectory, job: Job, wait: bool) -> bool:
    """Holds a directory while the stack is open; False where another process does, and that is not waited for."""

    def waiting() -> None:
        if job.waiting:
            job.waiting(directory.experiment)
        job.stop.check()
        if not wait:
            raise _Held

    try:
        stack.enter_context(directory.locked(waiting))
    except _Held:
        return False
    return True


def failure(directory: RunDirectory, error: Exception) -> Outcome:
    """The outcome of a failed run; the traceback is kept in its directory."""
    text = "".join(traceback.format_exception(error))
    log = directory.record_error(text)
    known = isinstance(error, Error)
    first_line = next((line for line in str(error).splitlines() if line.strip()), "no message")
    line = str(error) if known else f"{type(error).__name__}: {first_line}"
    return Outcome(directory.experiment, None, line, text, error.exit_code if known else 1, log)


def make_trainer(experiments: Sequence[Experiment], device: torch.device | str = "cpu") -> Trainer:
    """The trainer of one experiment, or of several that can be stacked, at their first step; it keeps no records."""
    device = torch.device(device)
    material = MATERIALS[type(experiments[0].data)](experiments[0], device, 1)
    states = [material.state(experiment) for experiment in experiments]
    strategy = Single(device) if len(states) == 1 else Stacked(device)
    for state in states:
        strategy.spread(state)
    return Trainer(states, material.data, material.objective, strategy)


def take_part(experiment: Experiment, checkpoint: Path | None, job: Job) -> None:
    """Train with the process that leads and has the records: what each of the other processes does."""
    own_code.allow(job.own)
    directory = RunDirectory(job.root, experiment)
    with using_threads(experiment.training.threads):
        for _ in _trained([directory], [checkpoint and read_state(checkpoint)], job):
            """The leader tests it and writes the result."""


def _trained(
    directories: Sequence[RunDirectory], saved: Sequence[SavedState | None], job: Job
) -> Iterator[tuple[Material, RunDirectory, TrainState, Single]]:
    """The states at the end of their training, each in the strategy it was trained by."""
    device = torch.device(job.device)
    single = job.strategy or Single(device)

    def begin() -> tuple[Material, list[TrainState]]:
        first, states = directories[0].experiment, []
        material = MATERIALS[type(first.data)](first, device, job.share)
        for directory in directories:
            directory.check_there()
            state = material.state(directory.experiment, directory)
            single.spread(state)
            state.begun_by = job.code
            if not single.leads:
                state.directory = None
            states.append(state)
        return material, states

    with single.taking_part():
        material, states = single.each(begin)
        for state, content in zip(states, saved, strict=True):
            if content:
                single.load(state, content)
                state.begun_by = state.begun_by or job.code
    # On a GPU a model that could be stacked is replayed, also where it is alone.
    alone = len(states) == 1
    stacked = Stacked(device) if not alone or (device.type == "cuda" and job.strategy is None) else None
    takes = stacked and stacked.takes(states[0], material.data, material.objective, alone=alone)
    together, strategy = takes and not alone, stacked if stacked and takes else single
    everything = list(zip(directories, states, strict=True))
    for group in [everything] if together else [[each] for each in everything]:
        with single.taking_part():
            for directory, state in group:
                with untouched_random(device), single.whole(state):
                    single.led(lambda d=directory, s=state: material.test_before(d.experiment, s, job.stop))
            Trainer(
                [s for _, s in group], material.data, material.objective, strategy, hear=job.hear, stop=job.stop
            ).run()
            for _, state in group:
                strategy.collect(state)
        for directory, state in group:
            yield material, directory, state, strategy


def _finish(material: Material, experiment: Experiment, state: TrainState, strategy: Single, job: Job) -> None:
    """Test the weights, then write the run's result."""
    directory, began = state.directory, state.begun_by
    assert directory is not None

    def keep(last: Tensors) -> None:
        tensors, meta = strategy.save(state)
        directory.save_state({**tensors, **{f"model.{k}": v for k, v in last.items()}}, meta)

    with untouched_random(strategy.device):
        scoring = Scoring(state, job.hear or (lambda progress: None), keep, job.stop)
        weights, tested = material.test_after(experiment, scoring)
        state.test_seconds = time.perf_counter() - scoring.began
    result = {
        "format": FORMAT,
        "hash": experiment.hash,
        "steps": state.step,
        "stopped": "steps" if state.step >= state.training.steps else "patience",
        "parameters": sum(p.numel() for p in state.parameters.values()),
        "seconds": {"train": round(state.train_seconds, 3), "evaluate": round(state.test_seconds, 3)},
        **tested,
        # Where other code began it, that is named too.
        "code": job.code if began in (None, job.code) else {**job.code, "clean": False, "begun_by": began},
        "machine": machine(job.device),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": job.command,
    }
    directory.finish(weights, result)


def groups(experiments: Sequence[Experiment], device: str) -> list[list[Experiment]]:
    """Returns which experiments go together: on a GPU those that differ in seed and rate alone, elsewhere none."""
    alike_by_hash: dict[str, list[Experiment]] = {}
    for experiment in experiments:
        alike = experiment
        if device.startswith("cuda") and experiment.training.curriculum.kind != "growing":
            alike = replace(experiment, seed=0, training=experiment.training.but(lr=1.0))
        alike_by_hash.setdefault(alike.hash, []).append(experiment)
    return list(alike_by_hash.values())
