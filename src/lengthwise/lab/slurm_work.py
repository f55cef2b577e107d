"""What a job of Slurm does on its node: run its groups, write how far they are, and keep state before it is killed.

Slurm sends a signal before it ends a job, for want of time or for somebody else's. The job then stops at the next step,
keeps its state, and is queued again. One that its user cancels keeps its state and ends.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from .. import __version__
from ..files import write_atomically
from ..train import Interrupted, Progress, Stop
from .engines import Processes, forkserver
from .experiment import Experiment
from .job import Job, Outcome, room, run_group

TELL_EVERY = 1.0
"""Seconds between two writings of a job's file."""
KILLED_AFTER = 60.0
"""Seconds after the signal to end in which Slurm kills, or says by another signal to queue the job again."""


class Work:
    """A job's life, as submitit sends it: called to begin, and asked by `checkpoint` what to queue again."""

    def __init__(self, version: str):
        self.version = version

    def __call__(self, work: list[list[Experiment]], job: Job, place: Path, number: int) -> list[Outcome] | str | None:
        from submitit import JobEnvironment  # pyright: ignore[reportMissingImports]

        if self.version != __version__:
            host = os.uname().nodename
            return f"{host}: a node has lengthwise {__version__}, and this is {self.version}. Install the same there."
        # What is queued again is what was given, which nobody has asked to stop.
        job = replace(job, stop=Stop())
        again, signals = JobEnvironment._usr_sig(), set[int]()
        queue_again = signal.getsignal(again)

        def ask(signum: int, frame: Any) -> None:
            signals.add(signum)
            job.stop.asked = True

        if len(work) > 1:
            # The signals reach every process of a job, and this one alone decides.
            signal.signal(again, signal.SIG_IGN)
            forkserver()
        for each in (again, signal.SIGTERM, signal.SIGINT):
            signal.signal(each, ask)
        teller = _Teller(place, number, job.stop)
        try:
            found = self._run(work, replace(job, hear=teller))
            # Runs may end between two writings.
            teller.tell()
            return found
        except Interrupted:
            deadline = time.monotonic() + (KILLED_AFTER if signal.SIGTERM in signals else 0)
            while again not in signals and time.monotonic() < deadline and not (place / "stop").exists():
                time.sleep(0.1)
            if again in signals and callable(queue_again):
                queue_again(again, None)
            return None

    @staticmethod
    def _run(work: list[list[Experiment]], job: Job) -> list[Outcome]:
        if len(work) == 1:
            share = max(1, room(replace(job, gpus=0), os.cpu_count() or 1, 0))
            return run_group(work[0], replace(job, share=share), wait=False)
        return list(Processes(len(work)).run(work, job))

    def checkpoint(self, *arguments: Any) -> Any:
        """What submitit queues again: the same, which goes on from the state that was kept."""
        from submitit.helpers import DelayedSubmission  # pyright: ignore[reportMissingImports]

        return DelayedSubmission(self, *arguments)


class _Teller:
    """Writes how far a job's runs are, and looks whether it is asked to stop."""

    def __init__(self, place: Path, number: int, stop: Stop):
        self.place, self.file, self.stop = place, place / f"{number}.json", stop
        self.latest: dict[str, Progress] = {}
        self.told = 0.0
        self.tell()

    def __call__(self, progress: Progress) -> None:
        first = progress.what not in self.latest
        self.latest[progress.what] = progress
        if first or time.monotonic() - self.told > TELL_EVERY:
            self.tell()

    def tell(self) -> None:
        self.told = time.monotonic()
        write_atomically(self.file, json.dumps([asdict(each) for each in self.latest.values()]).encode())
        if (self.place / "stop").exists():
            self.stop.asked = True
