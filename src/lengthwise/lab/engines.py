"""Where groups of experiments run: in this process, or each in a process of its own.

An engine is anything with `run(groups, job) -> iterator of outcomes`; it takes care that one group's failure is not
another's. Clusters join by writing one more. What another process is at work on comes last, so that the same call
given twice, here or on another machine with the same directory, shares the work.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import multiprocessing.context
import multiprocessing.forkserver
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Protocol

import torch

from ..errors import Error
from ..limits import WORKERS
from ..options import arguments, at_least
from ..train import Interrupted, Progress, Stop
from .experiment import Experiment
from .job import Job, Outcome, failure, run_group
from .records import RunDirectory, read_run

Groups = Sequence[Sequence[Experiment]]


class Engine(Protocol):
    def run(self, groups: Groups, job: Job) -> Iterator[Outcome]: ...


@contextlib.contextmanager
def interruptible(stop: Stop) -> Iterator[None]:
    """The first Ctrl-C asks to stop at the next step, so that state can be kept; the second does not wait."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(signum: int, frame: Any) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


UNGUARDED = 79
"""The exit code of a worker that met, while it read the script it was started from, the call that starts workers."""


WORKER = "lengthwise-worker"
"""The name of every process that `Processes` starts; those of the user's own have others."""


def leave_a_starting_worker() -> None:
    """End a worker that runs its script's own call of the lab, which would start workers without end."""
    process = multiprocessing.current_process()
    # Python sets this while a new process imports the main script; it is what its own refusal looks at.
    if process.name == WORKER and getattr(process, "_inheriting", False):
        os._exit(UNGUARDED)


class InProcess:
    """One group after the other, here."""

    def run(self, groups: Groups, job: Job) -> Iterator[Outcome]:
        todo = deque(groups)
        with interruptible(job.stop):
            while todo:
                group = todo.popleft()
                outcomes = run_group(group, job, wait=False)
                yield from outcomes
                if held := _without_outcome(group, outcomes):
                    todo.append(held)


def gpu_of(job: Job, taken: Iterable[str]) -> str:
    """The job's device; where runs are given GPUs, that one of this machine's which fewest workers have taken."""
    if not job.gpus or job.device != "cuda":
        return job.device
    at_work = Counter(taken)
    return min((f"cuda:{number}" for number in range(torch.cuda.device_count())), key=lambda name: at_work[name])


class Processes:
    """Each group in a fresh process, `workers` at a time; one that dies takes only its group."""

    def __init__(self, workers: Annotated[int, at_least(1, at_most=WORKERS), "How many run at a time."]):
        [self.workers] = arguments(Processes, workers=workers)

    def run(self, groups: Groups, job: Job) -> Iterator[Outcome]:
        context = forkserver()
        waiting = Waiting(groups, job)
        active: dict[Any, tuple[Any, Sequence[Experiment]]] = {}
        interrupted = False
        quiet = replace(job, hear=None, waiting=None, stop=Stop(), share=self.workers)
        devices: dict[Any, str] = {}
        with interruptible(job.stop):
            try:
                while active or (waiting and not job.stop.asked):
                    while len(active) < self.workers and not job.stop.asked and (group := waiting.next()):
                        here, there = context.Pipe()
                        devices[here] = gpu_of(job, [devices[pipe] for pipe in active])
                        here_on = replace(quiet, device=devices[here])
                        process = context.Process(
                            target=_work, name=WORKER, args=(list(group), here_on, there), daemon=False
                        )
                        process.start()
                        there.close()
                        active[here] = (process, group)
                    if job.stop.asked and not interrupted:
                        interrupted = True
                        for here in active:
                            with contextlib.suppress(OSError):
                                here.send("stop")
                    ready = set(multiprocessing.connection.wait(list(active), timeout=0.2))
                    for here in [pipe for pipe in active if pipe in ready]:
                        process, group = active[here]
                        try:
                            kind, content = here.recv()
                        except (EOFError, OSError):
                            # Ended, or killed in the middle of a message.
                            process.join()
                            del active[here]
                            if process.exitcode == UNGUARDED:
                                raise Error(
                                    f"{self.workers} workers: each reads this script from its beginning, so the call "
                                    'that starts them must stand under `if __name__ == "__main__":`. Put it there, or '
                                    "use workers=1."
                                ) from None
                            if not interrupted:
                                lost = list(died(group, ended(process.exitcode), job))
                                yield from lost
                                waiting.put_back(group, lost)
                            continue
                        if kind == "progress" and job.hear:
                            job.hear(content)
                        elif kind == "waiting" and job.waiting:
                            job.waiting(content)
                        elif kind == "outcomes":
                            process.join()
                            del active[here]
                            yield from content
                            waiting.put_back(group, content)
                        elif kind == "interrupted":
                            process.join()
                            del active[here]
                            interrupted = True
            finally:
                for process, _ in active.values():
                    process.terminate()
        if interrupted or job.stop.asked:
            raise Interrupted("Stopped; all state is kept.")


def _without_outcome(group: Sequence[Experiment], outcomes: Sequence[Outcome]) -> list[Experiment]:
    done = {outcome.experiment.hash for outcome in outcomes}
    return [experiment for experiment in group if experiment.hash not in done]


class Waiting:
    """The groups that are yet to start: fresh ones first, then those that another process was at work on.

    Each look at the latter tries files' locks, so that it is taken at few of them, in turn, and not all the time.
    """

    LOOK_EVERY = 1.0
    """Seconds between two looks that found nothing."""
    LOOK_AT = 8
    """How many groups a look is taken at."""

    def __init__(self, groups: Groups, job: Job):
        self.fresh, self.held, self.job = deque(groups), deque[Sequence[Experiment]](), job
        self.look_at = 0.0

    def __bool__(self) -> bool:
        return bool(self.fresh or self.held)

    def put_back(self, group: Sequence[Experiment], outcomes: Sequence[Outcome]) -> None:
        """Keep what of a group has no outcome, for another process is at work on it."""
        if left := _without_outcome(group, outcomes):
            self.held.append(left)

    def next(self) -> Sequence[Experiment] | None:
        """The next group to start; None where there is none now."""
        if self.fresh:
            return self.fresh.popleft()
        if time.monotonic() < self.look_at:
            return None
        for _ in range(min(self.LOOK_AT, len(self.held))):
            group = self.held.popleft()
            if not any(_held(RunDirectory(self.job.root, experiment)) for experiment in group):
                return group
            self.held.append(group)
        self.look_at = time.monotonic() + self.LOOK_EVERY
        return None


def _held(directory: RunDirectory) -> bool:
    """Whether another process is at work there; where that cannot be asked, who runs it will say why."""
    try:
        return directory.held()
    except Error:
        return False


def forkserver() -> multiprocessing.context.ForkServerContext:
    """A server that imports torch once; each worker is then a cheap fork of it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lengthwise.lab.engines"])
    if threading.current_thread() is threading.main_thread():
        # Born deaf to Ctrl-C, or one pressed while it still imports would make it print a traceback.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            multiprocessing.forkserver.ensure_running()
        finally:
            signal.signal(signal.SIGINT, before)
    return context


def ended(code: int | None) -> str:
    """How a worker process ended, in words."""
    how = f"signal {-code} (killed; out of memory?)" if code is not None and code < 0 else f"exit code {code}"
    return f"the worker process ended with {how}"


def died(group: Sequence[Experiment], why: str, job: Job) -> Iterator[Outcome]:
    """The outcomes of a group whose worker is gone, but for members that another process is at work on."""
    for experiment in group:
        directory = RunDirectory(job.root, experiment)
        if _held(directory):
            continue
        if not directory.finished():
            error = RuntimeError(f"{why}; start the same command again to go on")
            yield failure(directory, error)
            continue
        try:
            outcome = Outcome(experiment, read_run(directory.path))
        except Exception as error:
            outcome = failure(directory, error)
        yield outcome


TELL_EVERY = 0.1
"""Seconds between two reports of a worker, so that the pipe is not the work."""


def _work(group: list[Experiment], job: Job, pipe: Any) -> None:
    """The worker's life: run the group, report through the pipe, stop when told or when nobody listens any more."""
    # A Ctrl-C in the terminal reaches every process; the parent alone decides and tells through the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sent: dict[str, float] = {}

    def tell(kind: str, content: Any) -> None:
        try:
            if pipe.poll():
                pipe.recv()
                job.stop.asked = True
            pipe.send((kind, content))
        except (EOFError, OSError):
            job.stop.asked = True

    def hear(progress: Progress) -> None:
        now = time.monotonic()
        if progress.step == progress.steps or now - sent.get(progress.what, 0.0) > TELL_EVERY:
            sent[progress.what] = now
            tell("progress", progress)

    job = replace(job, hear=hear, waiting=lambda experiment: tell("waiting", experiment))
    try:
        tell("outcomes", run_group(group, job, wait=False))
    except Interrupted:
        tell("interrupted", None)
    finally:
        pipe.close()
