"""Groups of experiments as job arrays of a Slurm cluster; submitit writes the scripts and asks how the jobs are.

Whoever waits and the jobs speak through a `Mailbox` among the records, in whose folder `log/` is what submitit keeps of
its jobs, with what they printed. A job whose caller is gone goes on; the same call finds its runs held, and then
finished. Slurm sends a signal before it ends a job, for want of time or for somebody
else's: the job stops at the next step, keeps its state, and is queued again. One that its user cancels just ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from .. import __version__
from ..errors import Error, check_extra
from ..options import above, at_least
from ..train import Interrupted, Stop
from .engines import Group, Groups, Lost, News, Pool, Pooled
from .experiment import Experiment
from .job import Job, Outcome, room, run_group
from .mailbox import Mailbox, Teller

LOOK_EVERY = 1.0
"""Seconds between two looks at the files of the jobs."""
ASK_EVERY = 30.0
"""Seconds between two questions to Slurm, which is asked for all jobs at once."""
ARRAY = 1000
"""How many jobs are given to Slurm at a time; by itself it takes arrays of up to 1001."""
TIMES = 100
"""How often a job is queued again that ran out of its time."""
KILLED_AFTER = 60.0
"""Seconds after the signal to end in which Slurm kills, or says by another signal to queue the job again."""


@dataclass(frozen=True)
class SlurmJobs(Pooled):
    """Each group a job of a Slurm cluster."""

    partition: Annotated[str | None, "The partition of the jobs."] = None
    account: Annotated[str | None, "The account that they are charged to."] = None
    minutes: Annotated[int, at_least(1), "The time limit of a job; one that needs more is queued again."] = 60
    memory: Annotated[float | None, above(0), "Gigabytes of memory of a job."] = None
    at_once: Annotated[int | None, at_least(1), "How many jobs run at a time; none: as Slurm has room."] = None
    extra: Annotated[str | None, "More options of sbatch, as in extra=qos=high,constraint=a100."] = None
    cluster: Annotated[Literal["slurm", "local"], "local: processes here, to try what would be sent."] = "slurm"

    elsewhere: ClassVar[bool] = True

    @contextlib.contextmanager
    def pool(self, groups: Groups, job: Job) -> Iterator[Pool]:
        self._check(job)
        mailbox = Mailbox.new(job.root / ".slurm")
        pool = _JobPool(self.executor(mailbox.place / "log", job), self._room(job), mailbox, job)
        yield pool
        if not (pool.failed or pool.stopping):
            mailbox.remove()

    def _check(self, job: Job) -> None:
        check_extra("submitit", "slurm", "--launch slurm")
        if self.cluster == "slurm" and not shutil.which("sbatch"):
            raise Error(
                "There is no Slurm on this machine: the command sbatch was not found. Give the call on a login node of "
                "the cluster, or choose another way to launch runs: here, pool or ray."
            )
        if job.gpus % 1:
            raise Error(
                f"Slurm gives a job whole GPUs, got {job.gpus:g} a run. Let jobs share the work, each with a GPU that "
                "its runs share: sbatch --gpus 1 --array=1-8 --wrap 'lengthwise … --launch pool --gpus-per-run 0.25'."
            )

    def _room(self, job: Job) -> int:
        if self.cluster == "slurm":
            return ARRAY
        return self.at_once or max(1, room(job.cpus, 0, os.cpu_count() or 1, 0))

    def executor(self, folder: Path, job: Job) -> Any:
        """Submitit's, with what each job takes."""
        import submitit  # pyright: ignore[reportMissingImports]

        executor = submitit.AutoExecutor(folder=folder, cluster=self.cluster, slurm_max_num_timeout=TIMES)
        pairs = (word.partition("=") for word in (self.extra or "").split(",") if word)
        more = {name: value for name, _, value in pairs}
        executor.update_parameters(
            name="lengthwise",
            timeout_min=self.minutes,
            cpus_per_task=ceil(job.cpus),
            mem_gb=self.memory,
            slurm_gpus_per_node=int(job.gpus) or None,
            slurm_partition=self.partition,
            slurm_account=self.account,
            slurm_array_parallelism=self.at_once or ARRAY,
            slurm_additional_parameters=more or None,
        )
        return executor


class _JobPool:
    """The jobs of one call: by files of its place they tell how far they are, and are asked to stop."""

    def __init__(self, executor: Any, room: int, mailbox: Mailbox, job: Job):
        self.executor, self.room, self.mailbox, self.job = executor, room, mailbox, job
        self.pause = LOOK_EVERY
        self.numbers: dict[Any, int] = {}
        self.failed = self.stopping = False
        self.asked_at = time.monotonic()

    def submit(self, groups: Groups) -> Sequence[Any]:
        """Gives Slurm all of them as one array."""
        import submitit.core.utils  # pyright: ignore[reportMissingImports]

        numbers = range(len(self.numbers), len(self.numbers) + len(groups))
        how, place = SlurmWork(__version__), self.mailbox.place
        try:
            with self.executor.batch():
                jobs = [
                    self.executor.submit(how, list(group), self.job.quiet, place, n)
                    for n, group in zip(numbers, groups, strict=True)
                ]
        except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as error:
            why = [line for line in str(error).splitlines() if "error" in line.lower()] or str(error).splitlines()
            raise Error(f"Slurm took no job: {why[-1].strip()}. See `sinfo` for what the cluster has.") from error
        self.numbers |= zip(jobs, numbers, strict=True)
        return jobs

    def poll(self, active: Mapping[Any, Group]) -> Iterator[tuple[Any, News]]:
        time.sleep(self.pause)
        if time.monotonic() - self.asked_at > ASK_EVERY:
            self.asked_at = time.monotonic()
            # What is learned of one is learned of all.
            next(iter(active)).done(force_check=True)
        # An answer may have to be waited for, and only with it is surely there what the job wrote last.
        news = {job: self._news(job) for job in active if job.done()}
        for job in active:
            for progress in self.mailbox.news(self.numbers[job]):
                yield job, progress
        for job in active:
            if job in news:
                ended = news[job]
                self.failed |= isinstance(ended, (Lost, Exception)) or any(each.run is None for each in ended or ())
                yield job, ended
            elif self.stopping and not self.mailbox.file(self.numbers[job]).exists() and job.state != "RUNNING":
                # It waits, and has no state to keep; those that run are let keep theirs.
                job.cancel(check=False)
                yield job, None

    def stop(self) -> None:
        self.stopping = True
        self.mailbox.stop()

    def cancel(self, known: Any) -> None:
        known.cancel(check=False)

    def _news(self, job: Any) -> Lost | Exception | list[Outcome] | None:
        """Returns what a job that has ended gives; None of one that was stopped."""
        import submitit.core.utils  # pyright: ignore[reportMissingImports]

        try:
            answer = job.result()
        except submitit.core.utils.UncompletedJobError as error:
            if self.stopping:
                return None
            why = f"job {job.job_id} ended ({job.state})"
            if not self.mailbox.file(self.numbers[job]).exists():
                raise Error(
                    f"{why} without a sign of life in {self.mailbox.place}. Is that on storage that all nodes share, "
                    f"and is Lengthwise installed there? What the job printed: {job.paths.stderr}."
                    + "".join(f" Its last line: {line}" for line in (job.stderr() or "").strip().splitlines()[-1:])
                ) from error
            if isinstance(error, submitit.core.utils.FailedJobError):
                return error
            return Lost(f"{why}; see {job.paths.stderr}")
        if isinstance(answer, str):
            raise Error(answer)
        cancelled = answer is None and not self.stopping
        return Lost(f"job {job.job_id} was cancelled") if cancelled else answer


class SlurmWork:
    """A job's life, as submitit sends it: called to begin, and asked by `checkpoint` what to queue again."""

    def __init__(self, version: str):
        self.version = version

    def __call__(self, group: list[Experiment], job: Job, place: Path, number: int) -> list[Outcome] | str | None:
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

        for each in (again, signal.SIGTERM, signal.SIGINT):
            signal.signal(each, ask)
        try:
            share = max(1, room(job.cpus, 0, os.cpu_count() or 1, 0))
            return run_group(group, replace(job, hear=Teller(place, number, job.stop), share=share), wait=False)
        except Interrupted:
            deadline = time.monotonic() + (KILLED_AFTER if signal.SIGTERM in signals else 0)
            while again not in signals and time.monotonic() < deadline and not (place / "stop").exists():
                time.sleep(0.1)
            if again in signals and callable(queue_again):
                queue_again(again, None)
            return None

    def checkpoint(self, *arguments: Any) -> Any:
        """Returns what submitit queues again: the same, which goes on from the state that was kept."""
        from submitit.helpers import DelayedSubmission  # pyright: ignore[reportMissingImports]

        return DelayedSubmission(self, *arguments)
