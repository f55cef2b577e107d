"""Runs spread over the processes that torchrun started: each run has all of them, one run after the other.

    torchrun --nproc-per-node 2 -m lengthwise train stdlib -m bipe --strategy ddp

The leader does what one process does, and tells the others what is trained. They have no records, print
nothing, and are dismissed when the call ends.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import Error, UnknownName
from ..train import Interrupted, Stop
from ..train.distributed import Distributed, Replicated
from ..train.team import RankError, Team, under_torchrun
from .engines import Groups, InProcess, interruptible
from .job import Job, Outcome, take_part
from .launch import Launch
from .records import RunDirectory


def _sharded(team: Team) -> Distributed:
    # Whoever trains on one device need not wait for torch's FSDP2 to be imported.
    from ..train.sharded import Sharded

    return Sharded(team)


STRATEGIES: dict[str, Callable[[Team], Distributed]] = {"ddp": Replicated, "fsdp": _sharded}

GO_ON = "The last checkpoint is kept: give the same call again to go on."


@dataclass(frozen=True)
class Dismissal:
    """The call is over: what came out, as the leader returns it, or why nothing did."""

    outcomes: list[Outcome]
    why: Exception | None = None


def check_strategy(launch: Launch, command: str) -> None:
    """Raise unless runs can be spread over the processes there are, and nothing else of the launch says otherwise."""
    name = launch.strategy or ""
    if name not in STRATEGIES:
        raise UnknownName("strategy", name, STRATEGIES)
    for other in ("launch", "workers", "cpus_per_run", "gpus_per_run"):
        if getattr(launch, other) is not None:
            raise Error(
                f"strategy {name!r} spreads each run over the processes of torchrun, one run after the other, and "
                f"{other} says where several runs go. Leave one of the two out."
            )
    if not under_torchrun():
        line = f"torchrun --nproc-per-node 2 -m {command}" if command else "torchrun --nproc-per-node 2 SCRIPT.py"
        raise Error(f"strategy {name!r} needs the processes that torchrun starts, and this is a single one. {line}")


class UnderTorchrun(InProcess):
    """The leader's engine."""

    insist = True

    def __init__(self, strategy: str):
        self.strategy = strategy

    def run(self, groups: Groups, job: Job) -> Iterator[Outcome]:
        team = Team(job.device)
        strategy = STRATEGIES[self.strategy](team)
        done: list[Outcome] = []
        dismissal = Dismissal(done, Error("the leading process failed"))

        def order(directory: RunDirectory) -> None:
            team.tell((directory.experiment, directory.checkpoint(), job.root, job.own))

        try:
            experiments = [experiment for group in groups for experiment in group]
            for experiment in experiments:
                strategy.check(experiment.training.batch)
                if experiment.continues is not None:
                    strategy.check(experiment.continues.training.batch)
            job = replace(job, root=Path(job.root).resolve(), device=str(team.device), strategy=strategy, order=order)
            for outcome in super().run([[each] for each in experiments], job):
                if team.broken:
                    raise RankError(f"{outcome.experiment.directory}: the job ended: {team.why()}. {GO_ON}")
                done.append(outcome)
                yield outcome
            dismissal = Dismissal(done)
        except Interrupted as error:
            dismissal = Dismissal(done, Interrupted(str(error)))
            raise
        except Error as error:
            dismissal = Dismissal(done, Error(str(error)))
            raise
        finally:
            if not team.broken:
                team.tell(dismissal)
                team.part()


def follow(strategy: str, device: str) -> list[Outcome]:
    """Runs what every process does but the leader; returns the outcomes that the leader returns."""
    warnings.simplefilter("ignore")
    team = Team(device)
    job = Job(Path(), device=str(team.device), strategy=STRATEGIES[strategy](team))
    with interruptible(Stop(), insist=True):
        while True:
            try:
                told: Any = team.tell(None)
                if isinstance(told, Dismissal):
                    break
                experiment, checkpoint, root, own = told
                take_part(experiment, checkpoint, replace(job, root=root, own=own, stop=Stop()))
            except Exception as error:
                if team.in_step(error):
                    continue
                team.fail(error)
                if team.leader_is_gone():
                    raise RankError(f"The job ended: {team.why()}. {GO_ON}") from error
                raise Error(str(error)) from error
    team.part()
    if told.why:
        raise told.why
    return told.outcomes
