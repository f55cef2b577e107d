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
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Protocol

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


class Processes:
    """Each group in a fresh process, `workers` at a time; one that dies takes only its group."""

    def __init__(self, workers: Annotated[int, at_least(1, at_most=WORKERS), "How many run at a time."]):
        [self.workers] = arguments(Processes, workers=workers)

    def run(self, groups: Groups, job: Job) -> Iterator[Outcome]:
        context = _forkserver()
        fresh, held = deque(groups), deque[Sequence[Experiment]]()
        active: dict[Any, tuple[Any, Sequence[Experiment]]] = {}
        interrupted = False
        quiet = replace(job, hear=None, waiting=None, stop=Stop(), share=self.workers)
        with interruptible(job.stop):
            try:
                while active or ((fresh or held) and not job.stop.asked):
                    while len(active) < self.workers and not job.stop.asked and (group := _next(fresh, held, job)):
                        here, there = context.Pipe()
                        process = context.Process(
                            target=_work, name=WORKER, args=(list(group), quiet, there), daemon=False
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
                                yield from _died(group, process.exitcode, job)
                            continue
                        if kind == "progress" and job.hear:
                            job.hear(content)
                        elif kind == "waiting" and job.waiting:
                            job.waiting(content)
                        elif kind == "outcomes":
                            process.join()
                            del active[here]
                            yield from content
                            if left := _without_outcome(group, content):
                                held.append(left)
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


def _next(
    fresh: deque[Sequence[Experiment]], held: deque[Sequence[Experiment]], job: Job
) -> Sequence[Experiment] | None:
    """The next group to start: a fresh one, or one that no other process is at work on any longer."""
    if fresh:
        return fresh.popleft()
    for group in held:
        if not any(RunDirectory(job.root, experiment).held() for experiment in group):
            held.remove(group)
            return group
    return None


def _forkserver() -> multiprocessing.context.ForkServerContext:
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


def _died(group: Sequence[Experiment], code: int | None, job: Job) -> Iterator[Outcome]:
    why = f"signal {-code} (killed; out of memory?)" if code is not None and code < 0 else f"exit code {code}"
    for experiment in group:
        directory = RunDirectory(job.root, experiment)
        if directory.finished():
            yield Outcome(experiment, read_run(directory.path))
        else:
            error = RuntimeError(f"the worker process ended with {why}; start the same command again to go on")
            yield failure(directory, error)


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
