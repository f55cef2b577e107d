"""Where groups of experiments run: in this process, or each in a process of its own.

An engine is anything with `run(groups, job) -> iterator of outcomes`; it takes care that one group's failure is not
another's. Clusters join by one more `Pool`. What another process is at work on comes last, so that the same call
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol

import torch

from ..errors import Error
from ..limits import WORKERS
from ..options import at_least, check_fields
from ..train import Interrupted, Progress, Stop
from .experiment import Experiment
from .job import Job, Outcome, failure, run_group
from .records import RunDirectory, read_run

Group = Sequence[Experiment]
"""Experiments that go together, or one alone."""
Groups = Sequence[Group]


@contextlib.contextmanager
def interruptible(stop: Stop, *, insist: bool = False) -> Iterator[None]:
    """The first Ctrl-C asks to stop at the next step, so that state can be kept; the second does not wait.

    `insist`: SIGTERM asks too, and a second signal means nothing, as of torchrun, which sends each once more.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(signum: int, frame: Any) -> None:
        if stop.asked and not insist:
            raise KeyboardInterrupt
        stop.asked = True

    numbers = (signal.SIGINT, signal.SIGTERM) if insist else (signal.SIGINT,)
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
    """One group after the other, here; what another process holds comes last."""

    insist = False
    """As in `interruptible`."""

    def run(self, groups: Groups, job: Job) -> Iterator[Outcome]:
        todo = deque(groups)
        with interruptible(job.stop, insist=self.insist):
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


class Lost(NamedTuple):
    """A group that ended without an answer, and why."""

    why: str


News = Progress | Experiment | Sequence[Outcome] | Exception | Lost | None
"""How far a run is, one that another process holds, or the end of a group: what came out, why all of it failed, that it
was lost, or None where it was stopped."""


class Pool(Protocol):
    """A place where groups run side by side; `Pooled` gives, hears and ends them."""

    pause: float
    """Seconds between two looks where nothing runs."""

    @property
    def room(self) -> int: ...  # how many run at a time

    def submit(self, groups: Groups) -> Sequence[Any]: ...  # what each of them is known by

    def poll(self, active: Mapping[Any, Group]) -> Iterable[tuple[Any, News]]: ...  # waits for a moment

    def stop(self) -> None: ...  # asks all to keep their state and end

    def cancel(self, known: Any) -> None: ...  # ends one now


class Pooled:
    """An engine whose groups run in a pool: the one loop that starts them, hears them and takes what came out."""

    def __post_init__(self):
        check_fields(self)

    def pool(self, groups: Groups, job: Job) -> contextlib.AbstractContextManager[Pool]:
        """The pool, open for these groups."""
        raise NotImplementedError

    def run(self, groups: Groups, job: Job) -> Iterator[Outcome]:
        job = replace(job, root=Path(job.root).resolve())
        waiting, active, asked = Waiting(groups, job), dict[Any, Group](), False
        with self.pool(groups, job) as pool, interruptible(job.stop):
            try:
                while active or (waiting and not job.stop.asked):
                    if not job.stop.asked:
                        some = list(islice(iter(waiting.next, None), max(0, pool.room - len(active))))
                        active |= zip(pool.submit(some), some, strict=True) if some else ()
                    elif not asked:
                        asked = True
                        pool.stop()
                    if not active:
                        time.sleep(pool.pause)
                    for known, news in list(pool.poll(active)) if active else ():
                        if isinstance(news, Progress):
                            if job.hear:
                                job.hear(news)
                        elif isinstance(news, Experiment):
                            if job.waiting:
                                job.waiting(news)
                        else:
                            group = active.pop(known)
                            if isinstance(news, Lost):
                                news = [] if asked else list(died(group, news.why, job))
                            elif isinstance(news, Exception):
                                news = [failure(RunDirectory(job.root, each), news) for each in group]
                            yield from news or ()
                            if not asked:
                                waiting.put_back(group, news or ())
            finally:
                for known in active:
                    pool.cancel(known)
        if asked or job.stop.asked:
            raise Interrupted("Stopped; all state is kept.")


@dataclass(frozen=True)
class Processes(Pooled):
    """Each group in a fresh process, `workers` at a time; one that dies takes only its group."""

    workers: Annotated[int, at_least(1, at_most=WORKERS), "How many run at a time."]

    def pool(self, groups: Groups, job: Job) -> contextlib.AbstractContextManager[Pool]:
        return contextlib.nullcontext(_ProcessPool(self.workers, job))


class _ProcessPool:
    """Workers by the pipes to them."""

    pause = 0.2

    def __init__(self, workers: int, job: Job):
        self.workers, self.job, self.context = workers, job, forkserver()
        self.processes: dict[Any, Any] = {}
        self.devices: dict[Any, str] = {}

    @property
    def room(self) -> int:
        return self.workers

    def submit(self, groups: Groups) -> Sequence[Any]:
        pipes = []
        for group in groups:
            here, there = self.context.Pipe()
            self.devices[here] = gpu_of(self.job, [self.devices[pipe] for pipe in self.processes])
            job = replace(self.job.quiet, share=self.room, device=self.devices[here])
            process = self.context.Process(target=_work, name=WORKER, args=(list(group), job, there), daemon=False)
            process.start()
            there.close()
            self.processes[here] = process
            pipes.append(here)
        return pipes

    def poll(self, active: Mapping[Any, Group]) -> Iterator[tuple[Any, News]]:
        for pipe in multiprocessing.connection.wait(list(active), timeout=self.pause):
            try:
                over, news = pipe.recv()  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
            except (EOFError, OSError):
                # Ended, or killed in the middle of a message.
                over, news = True, None
                self.processes[pipe].join()
                if self.processes[pipe].exitcode == UNGUARDED:
                    raise Error(
                        f"{self.room} workers: each reads this script from its beginning, so the call that starts "
                        'them must stand under `if __name__ == "__main__":`. Put it there, or use workers=1.'
                    ) from None
                news = Lost(ended(self.processes[pipe].exitcode))
            if over:
                self.processes.pop(pipe).join()
            yield pipe, news

    def stop(self) -> None:
        for pipe in self.processes:
            with contextlib.suppress(OSError):
                pipe.send("stop")

    def cancel(self, known: Any) -> None:
        if known in self.processes:
            self.processes[known].terminate()


def _without_outcome(group: Group, outcomes: Sequence[Outcome]) -> list[Experiment]:
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
        self.fresh, self.held, self.job = deque(groups), deque[Group](), job
        self.look_at = 0.0

    def __bool__(self) -> bool:
        return bool(self.fresh or self.held)

    def put_back(self, group: Group, outcomes: Sequence[Outcome]) -> None:
        """Keep what of a group has no outcome, for another process is at work on it."""
        if left := _without_outcome(group, outcomes):
            self.held.append(left)

    def next(self) -> Group | None:
        """The next group to start; None where there is none now."""
        if self.fresh:
            return self.fresh.popleft()
        if time.monotonic() < self.look_at:
            return None
        for _ in range(min(self.LOOK_AT, len(self.held))):
            group = self.held.popleft()
            if not any(RunDirectory(self.job.root, experiment).held() for experiment in group):
                return group
            self.held.append(group)
        self.look_at = time.monotonic() + self.LOOK_EVERY
        return None


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
    """Returns how a worker process ended, in words."""
    how = f"signal {-code} (killed; out of memory?)" if code is not None and code < 0 else f"exit code {code}"
    return f"the worker process ended with {how}"


def died(group: Group, why: str, job: Job) -> Iterator[Outcome]:
    """The outcomes of a group whose worker is gone, but for members that another process is at work on."""
    for directory in (RunDirectory(job.root, experiment) for experiment in group):
        if directory.held():
            continue
        try:
            if not directory.finished():
                raise RuntimeError(f"{why}; start the same command again to go on")
            outcome = Outcome(directory.experiment, read_run(directory.path))
        except Exception as error:
            outcome = failure(directory, error)
        yield outcome


TELL_EVERY = 0.1
"""Seconds between two reports of a worker, so that the pipe is not the work; the last step of a run is told at once."""


def _work(group: list[Experiment], job: Job, pipe: Any) -> None:
    """The worker's life: run the group, report through the pipe, stop when told or when nobody listens any more."""
    # A Ctrl-C in the terminal reaches every process; the parent alone decides and tells through the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    told: dict[str, float] = {}

    def tell(content: Any, over: bool = False) -> None:
        try:
            if pipe.poll():
                pipe.recv()
                job.stop.asked = True
            pipe.send((over, content))
        except (EOFError, OSError):
            job.stop.asked = True

    def hear(progress: Progress) -> None:
        now = time.monotonic()
        if progress.step == progress.steps or now - told.get(progress.what, 0.0) > TELL_EVERY:
            told[progress.what] = now
            tell(progress)

    try:
        tell(run_group(group, replace(job, hear=hear, waiting=tell), wait=False), over=True)
    except Interrupted:
        tell(None, over=True)
    finally:
        pipe.close()
