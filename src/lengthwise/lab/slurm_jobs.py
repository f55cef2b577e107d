"""Groups of experiments as job arrays of a Slurm cluster; submitit writes the scripts and asks how the jobs are.

Whoever waits and the jobs speak through files of the directory of the records, and need no network:

    .slurm/CALL/3.json    how far the groups of job 3 are; it is there as soon as the job has begun
    .slurm/CALL/stop      asks all jobs to keep their state and end
    .slurm/CALL/log/      what submitit keeps of its jobs, with what they printed

A job that Slurm is about to end keeps its state and is queued again. One whose caller is gone goes on; the same call
finds its runs held, and then finished.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal

from .. import __version__
from ..errors import Error, RecordError, check_extra
from ..files import read_bytes
from ..options import above, arguments, at_least
from ..train import Interrupted, Progress, Stop
from .engines import Groups, Waiting, died, interruptible
from .experiment import Experiment
from .job import Job, Outcome, failure, room
from .records import RunDirectory
from .slurm_work import Work

LOOK_EVERY = 1.0
"""Seconds between two looks at the files of the jobs."""
ASK_EVERY = 30.0
"""Seconds between two questions to Slurm, which is asked for all jobs at once."""
ARRAY = 1000
"""How many jobs are given to Slurm at a time; by itself it takes arrays of up to 1001."""
TIMES = 100
"""How often a job is queued again that ran out of its time."""


class SlurmJobs:
    """Each group a job of a Slurm cluster, or as many groups as share a GPU."""

    elsewhere = True

    def __init__(
        self,
        partition: Annotated[str | None, "The partition of the jobs."] = None,
        account: Annotated[str | None, "The account that they are charged to."] = None,
        minutes: Annotated[int, at_least(1), "The time limit of a job; one that needs more is queued again."] = 60,
        memory: Annotated[float | None, above(0), "Gigabytes of memory of a job."] = None,
        at_once: Annotated[int | None, at_least(1), "How many jobs run at a time; none: as Slurm has room."] = None,
        extra: Annotated[str | None, "More options of sbatch, as in extra=qos=high,constraint=a100."] = None,
        cluster: Annotated[Literal["slurm", "local"], "local: processes here, to try what would be sent."] = "slurm",
    ):
        given = dict(partition=partition, account=account, minutes=minutes, memory=memory)
        self.partition, self.account, self.minutes, self.memory, self.at_once, self.extra, self.cluster = arguments(
            SlurmJobs, **given, at_once=at_once, extra=extra, cluster=cluster
        )

    def run(self, groups: Groups, job: Job) -> Iterator[Outcome]:
        job = replace(job, root=Path(job.root).resolve())
        self._check(groups, job)
        place = job.root / ".slurm" / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"
        place.mkdir(parents=True)
        with interruptible(job.stop):
            yield from _Sweep(self.executor(place / "log", job), self._room(job), place, job).run(groups)

    def _check(self, groups: Groups, job: Job) -> None:
        try:
            check_extra("submitit", "slurm", "--launch slurm")
        except Error as error:
            by_hand = sbatch_line(len(groups), job, self)
            raise Error(f"{error}. Or by hand, equal calls that share the work: {by_hand}") from None
        if self.cluster == "slurm" and not shutil.which("sbatch"):
            raise Error(
                "There is no Slurm on this machine: the command sbatch was not found. Give the call on a login node of "
                "the cluster, or choose another way to launch runs: here, pool or ray."
            )

    def _room(self, job: Job) -> int:
        if self.cluster == "slurm":
            return ARRAY
        return self.at_once or max(1, room(replace(job, gpus=0), os.cpu_count() or 1, 0))

    def executor(self, folder: Path, job: Job) -> Any:
        """Submitit's, with what each job takes."""
        import submitit  # pyright: ignore[reportMissingImports]

        together = groups_a_job(job)
        executor = submitit.AutoExecutor(folder=folder, cluster=self.cluster, slurm_max_num_timeout=TIMES)
        more = dict(word.partition("=")[::2] for word in self.extra.split(",")) if self.extra else {}
        executor.update_parameters(
            name="lengthwise",
            timeout_min=self.minutes,
            cpus_per_task=ceil(together * job.cpus),
            mem_gb=self.memory,
            slurm_gpus_per_node=ceil(job.gpus) if job.gpus else None,
            slurm_partition=self.partition,
            slurm_account=self.account,
            slurm_array_parallelism=self.at_once or ARRAY,
            slurm_additional_parameters=more or None,
        )
        return executor


def groups_a_job(job: Job) -> int:
    """Slurm gives GPUs whole: as many groups as share one run side by side in a job."""
    return max(1, int(1 / job.gpus)) if job.gpus else 1


def sbatch_line(runs: int, job: Job, how: SlurmJobs) -> str:
    """What does the same work without submitit: the same call several times, which share what is to do."""
    words, kept = shlex.split(job.command or "lengthwise bench …"), []
    while words:
        word = words.pop(0)
        if word == "--launch":
            words[:1] = []
        elif not word.startswith("--launch="):
            kept.append(word)
    call = shlex.join([*kept, "--launch", "here"])
    options = {
        "array": f"1-{how.at_once or min(runs, 8)}",
        "time": how.minutes,
        "cpus-per-task": ceil(job.cpus),
        "gpus": ceil(job.gpus) if job.gpus else None,
        "mem": how.memory and f"{1024 * how.memory:.0f}M",
        "partition": how.partition,
        "account": how.account,
    }
    given = " ".join(f"--{name}={value}" for name, value in options.items() if value is not None)
    return f"sbatch {given} --wrap {shlex.quote(call)}"


class _Sweep:
    """One call: gives jobs to Slurm, hears how they go, and takes what they found."""

    def __init__(self, executor: Any, room: int, place: Path, job: Job):
        self.executor, self.room, self.place, self.job = executor, room, place, job
        self.quiet = replace(job, hear=None, waiting=None, stop=Stop())
        self.active: dict[Any, tuple[int, list[Sequence[Experiment]]]] = {}
        self.given = 0
        self.heard: dict[int, float] = {}

    def run(self, groups: Groups) -> Iterator[Outcome]:
        waiting, stop, asked_at, failed = Waiting(groups, self.job), self.job.stop, time.monotonic(), False
        interrupted = False
        try:
            while self.active or (waiting and not stop.asked):
                if not stop.asked:
                    self._submit(waiting)
                elif not interrupted:
                    interrupted = True
                    (self.place / "stop").touch()
                if interrupted:
                    self._cancel_those_that_wait()
                if time.monotonic() - asked_at > ASK_EVERY and self.active:
                    asked_at = time.monotonic()
                    # What is learned of one is learned of all.
                    next(iter(self.active)).done(force_check=True)
                ended = [job for job in self.active if job.done()]
                # Also what those that have ended wrote last.
                for progress in self._news():
                    if self.job.hear:
                        self.job.hear(progress)
                for job in ended:
                    number, work = self.active.pop(job)
                    outcomes = self._outcomes(job, number, work, interrupted)
                    failed |= any(outcome.run is None for outcome in outcomes)
                    yield from outcomes
                    if not interrupted:
                        for group in work:
                            waiting.put_back(group, outcomes)
                time.sleep(LOOK_EVERY if self.active or waiting else 0)
        finally:
            for job in self.active:
                job.cancel(check=False)
        if interrupted:
            raise Interrupted("Stopped; all state is kept.")
        if not failed:
            shutil.rmtree(self.place, ignore_errors=True)
            with contextlib.suppress(OSError):
                self.place.parent.rmdir()

    def _submit(self, waiting: Waiting) -> None:
        """Give Slurm what there is room for, as one array."""
        import submitit.core.utils  # pyright: ignore[reportMissingImports]

        work: list[list[Sequence[Experiment]]] = []
        while len(self.active) + len(work) < self.room and (group := waiting.next()):
            work.append([group])
            while len(work[-1]) < groups_a_job(self.job) and (group := waiting.next()):
                work[-1].append(group)
        if not work:
            return
        numbers = range(self.given, self.given + len(work))
        self.given += len(work)
        try:
            with self.executor.batch():
                jobs = [
                    self.executor.submit(Work(__version__), [list(group) for group in each], self.quiet, self.place, n)
                    for n, each in zip(numbers, work, strict=True)
                ]
        except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as error:
            said = [line for line in str(error).splitlines() if "error" in line.lower()] or str(error).splitlines()
            raise Error(f"Slurm took no job: {said[-1].strip()}. See `sinfo` for what the cluster has.") from error
        self.active |= {job: (n, each) for job, n, each in zip(jobs, numbers, work, strict=True)}

    def _file(self, number: int) -> Path:
        return self.place / f"{number}.json"

    def _news(self) -> Iterator[Progress]:
        """What the jobs have written of their progress since the last look."""
        for number, _ in self.active.values():
            with contextlib.suppress(OSError, RecordError):
                written = self._file(number).stat().st_mtime
                if written != self.heard.get(number):
                    self.heard[number] = written
                    yield from (Progress(**each) for each in json.loads(read_bytes(self._file(number))))

    def _cancel_those_that_wait(self) -> None:
        """They have no state to keep; those that run are let keep theirs."""
        for job, (number, _) in list(self.active.items()):
            if not self._file(number).exists() and job.state != "RUNNING":
                job.cancel(check=False)
                del self.active[job]

    def _outcomes(self, job: Any, number: int, work: list[Sequence[Experiment]], interrupted: bool) -> list[Outcome]:
        """What a job that has ended gives; nothing of one that was stopped."""
        import submitit.core.utils  # pyright: ignore[reportMissingImports]

        experiments = [experiment for group in work for experiment in group]
        try:
            found = job.result()
        except submitit.core.utils.UncompletedJobError as error:
            if interrupted:
                return []
            why = f"job {job.job_id} ended ({job.state})"
            if not self._file(number).exists():
                raise Error(
                    f"{why} without a sign of life in {self.place}. Is that on storage that all nodes share, and is "
                    f"Lengthwise installed there? What the job printed: {job.paths.stderr}. {_last_line(job)}"
                ) from error
            if isinstance(error, submitit.core.utils.FailedJobError):
                return [failure(RunDirectory(self.job.root, experiment), error) for experiment in experiments]
            return list(died(experiments, f"{why}; see {job.paths.stderr}", self.job))
        if isinstance(found, str):
            raise Error(found)
        if found is None:
            return [] if interrupted else list(died(experiments, f"job {job.job_id} was cancelled", self.job))
        return found


def _last_line(job: Any) -> str:
    lines = (job.stderr() or "").strip().splitlines()
    return f"Its last line: {lines[-1]}" if lines else ""
