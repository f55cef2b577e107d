"""From an experiment to a finished run: lock, resume, train, evaluate, record."""

from __future__ import annotations

import datetime
import os
import platform
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from ..errors import Error
from .evaluation import Tested, evaluate
from .experiment import Experiment
from .member import Member, load_weights
from .population import stacks
from .records import Run, RunDirectory, read_run
from .training import Advance, Stop, train

SAVE_SCORES_EVERY = 20.0
"""Seconds between checkpoints during evaluation."""


class Interrupted(Error):
    """Stopped on request, with all state kept."""


@dataclass(frozen=True)
class Outcome:
    """What became of an experiment: a run, or an error in one line with its traceback."""

    experiment: Experiment
    run: Run | None = None
    error: str | None = None
    traceback: str | None = None
    exit_code: int = 0
    log: Path | None = None
    """Where the traceback is recorded."""


@dataclass(frozen=True)
class Job:
    """What a worker needs besides the experiments: where to write and what to run on."""

    root: Path
    device: str = "cpu"
    share: int = 1
    """Processes that share this machine's memory."""
    command: str = ""
    advance: Advance | None = None
    stop: Stop = field(default_factory=Stop)
    waiting: Callable[[Experiment], None] | None = None
    """Hears that another process holds the experiment's directory."""


def machine(device: str) -> dict[str, Any]:
    """What the result was computed with."""
    import transformers

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "lengthwise": __version__,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else device,
    }


def run_group(experiments: Sequence[Experiment], job: Job) -> list[Outcome]:
    """Run experiments that can go together (or one alone); failures become outcomes, `Interrupted` passes through."""
    directories = [RunDirectory(job.root, experiment) for experiment in experiments]
    try:
        with ExitStack() as stack:
            # In the order of their names, so that two processes cannot each hold what the other waits for.
            for directory in sorted(directories, key=lambda d: d.path):
                stack.enter_context(directory.locked(lambda d=directory: _wait(d, job)))
            for directory in (d for d in directories if d.finished()):
                directory.tidy()
            todo = [d for d in directories if not d.finished()]
            if todo:
                with using_threads(experiments[0].training.threads):
                    _run(todo, job)
        return [Outcome(d.experiment, read_run(d.path)) for d in directories]
    except Interrupted:
        raise
    except Exception as error:
        if len(experiments) > 1:
            # One member's failure is not the others': each goes on alone from its own checkpoint.
            return [outcome for experiment in experiments for outcome in run_group([experiment], job)]
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


def _wait(directory: RunDirectory, job: Job) -> None:
    """Called again and again while another process holds the directory."""
    if job.waiting:
        job.waiting(directory.experiment)
    if job.stop.asked:
        raise Interrupted("Stopped; all state is kept.")


def failure(directory: RunDirectory, error: Exception) -> Outcome:
    """The outcome of a failed run; the traceback is kept in its directory."""
    text = "".join(traceback.format_exception(error))
    log = directory.record_error(text)
    known = isinstance(error, Error)
    said = next((line for line in str(error).splitlines() if line.strip()), "no message")
    line = str(error) if known else f"{type(error).__name__}: {said}"
    return Outcome(directory.experiment, None, line, text, error.exit_code if known else 1, log)


def _run(directories: list[RunDirectory], job: Job) -> None:
    device = torch.device(job.device)
    members = []
    for directory in directories:
        state = directory.start()
        member = Member(directory.experiment, device)
        if state:
            member.restore(state)
        members.append(member)
    pairs = list(zip(members, directories, strict=True))
    for group in [pairs] if len(pairs) > 1 and stacks(members[0]) else [[pair] for pair in pairs]:
        done = train([m for m, _ in group], [d for _, d in group], advance=job.advance, stop=job.stop, share=job.share)
        if not done:
            raise Interrupted("Stopped; all state is kept.")
        for member, directory in group:
            _finish(member, directory, job)


def _finish(member: Member, directory: RunDirectory, job: Job) -> None:
    """Evaluate the last and the best weights, then write the run's result."""
    last = {name: tensor.clone() for name, tensor in member.weights().items()}
    asked = member.experiment.evaluation
    same = member.best["step"] == member.step
    began = saved = time.perf_counter() - member.test_seconds
    for which, weights in [("last", last)] if same else [("last", last), ("best", member.best_weights)]:
        load_weights(member.classifier.inner, weights)

        def after(found: Tested, which: str = which) -> None:
            nonlocal saved
            if job.advance:
                job.advance(member.experiment, len(found.correct), len(asked.lengths), 0.0, f"test {which}")
            member.scores[which] = found
            member.test_seconds = time.perf_counter() - began
            if job.stop.asked or time.perf_counter() - saved > SAVE_SCORES_EVERY:
                state = member.state()
                # The checkpoint is of the last weights, whichever are being tested.
                tensors = {**state.tensors, **{f"model.{k}": v for k, v in last.items()}}
                directory.save_state(tensors, state.meta)
                saved = time.perf_counter()
            if job.stop.asked:
                raise Interrupted("Stopped; all state is kept.")

        member.scores[which] = evaluate(
            member.classifier,
            member.task,
            asked.lengths,
            asked.samples,
            asked.seed,
            device=member.device,
            autocast=member.training.precision,
            share=job.share,
            known=member.scores.get(which),
            after=after,
        )
    validation = {key: member.best[key] for key in ("accuracy", "loss")}
    best = member.scores["last" if same else "best"]
    result = {
        "format": 1,
        "hash": member.experiment.hash,
        "steps": member.step,
        "stopped": "steps" if member.step >= member.training.steps else "patience",
        "parameters": sum(p.numel() for p in member.parameters.values()),
        "seconds": {"train": round(member.seconds, 3), "evaluate": round(member.test_seconds, 3)},
        "samples": asked.samples,
        "checkpoints": {
            "last": {"step": member.step, **member.scores["last"]._asdict()},
            "best": {"step": member.best["step"], **best._asdict(), "validation": validation},
        },
        "baseline": {str(n): member.task.baseline(n) for n in asked.lengths},
        "machine": machine(job.device),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": job.command,
    }
    directory.finish({"model": last, "best": last if same else member.best_weights}, result)


def groups(experiments: Sequence[Experiment], device: str) -> list[list[Experiment]]:
    """Which experiments go together: on a GPU those that differ in seed and learning rate alone, elsewhere none."""
    found: dict[str, list[Experiment]] = {}
    for experiment in experiments:
        alike = experiment
        if device.startswith("cuda") and experiment.training.curriculum.kind != "growing":
            alike = replace(experiment, seed=0, training=experiment.training.but(lr=1.0))
        found.setdefault(alike.hash, []).append(experiment)
    return list(found.values())
