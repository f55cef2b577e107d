"""Groups of experiments as tasks of a Ray cluster; their records are on storage that all its nodes share.

A task whose node dies is started again by Ray on another, and goes on from the run's last checkpoint. Ray keeps nothing
of a result: that is in the run's record, so a sweep that was stopped goes on by the same call, with Ray or without.
Where the call itself is killed, Ray ends its tasks.
"""

from __future__ import annotations

import contextlib
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from .. import __version__
from ..errors import Error, check_extra
from ..train import Interrupted
from .engines import Group, Groups, Lost, News, Pool, Pooled
from .experiment import Experiment
from .job import Job, Outcome, check_room, room, run_group
from .mailbox import Mailbox, Teller

START_AGAIN = 3
"""How often a task is started again whose node died."""


@dataclass(frozen=True)
class RayTasks(Pooled):
    """Each group a task of a Ray cluster, as many at a time as its nodes have room for."""

    address: Annotated[str | None, "The cluster, as in HOST:6379, ray://HOST:10001 or auto; none: this machine."] = None

    elsewhere: ClassVar[bool] = True

    @contextlib.contextmanager
    def pool(self, groups: Groups, job: Job) -> Iterator[Pool]:
        with _connected(self.address) as ray:
            nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            cores, gpus = (max((node.get(kind, 0) for node in nodes), default=0) for kind in ("CPU", "GPU"))
            check_room(job.cpus, job.gpus, cores, gpus, "no node of the cluster has more than")
            _check_nodes(ray, job.root)
            mailbox = Mailbox.new(job.root / ".ray")
            try:
                yield _RayPool(ray, mailbox, job)
            finally:
                mailbox.remove()


class _RayPool:
    """Tasks of a cluster."""

    pause = 0.5

    def __init__(self, ray: Any, mailbox: Mailbox, job: Job):
        self.ray, self.mailbox, self.job, self.stop = ray, mailbox, job, mailbox.stop
        self.start = ray.remote(num_cpus=job.cpus, num_gpus=job.gpus, max_retries=START_AGAIN)(_work)
        self.numbers: dict[Any, int] = {}

    @property
    def room(self) -> int:
        """As many runs as the cluster has room for now, and one that waits."""
        return 1 + max(1, sum(_fit(node, self.job) for node in self.ray.nodes() if node["Alive"]))

    def submit(self, groups: Groups) -> Sequence[Any]:
        numbers = range(len(self.numbers), len(self.numbers) + len(groups))
        job, place = self.job.quiet, self.mailbox.place
        tasks = [self.start.remote(list(group), job, place, n) for n, group in zip(numbers, groups, strict=True)]
        self.numbers |= zip(tasks, numbers, strict=True)
        return tasks

    def poll(self, active: Mapping[Any, Group]) -> Iterator[tuple[Any, News]]:
        ended = self.ray.wait(list(active), timeout=self.pause)[0]
        # Also what those that have ended told last.
        for task in active:
            for progress in self.mailbox.news(self.numbers[task]):
                yield task, progress
        for task in ended:
            yield task, self._news(task)

    def _news(self, task: Any) -> News:
        errors = self.ray.exceptions
        try:
            return self.ray.get(task)
        except errors.RayTaskError as error:
            return error.cause or error
        except errors.RayError as error:
            why = next(iter(str(error).splitlines()), type(error).__name__)
            return Lost(f"the task was lost {START_AGAIN + 1} times ({why})")

    def cancel(self, known: Any) -> None:
        self.ray.cancel(known, force=True)


def _fit(node: Mapping[str, Any], job: Job) -> int:
    """Returns how many runs a node has room for."""
    return room(job.cpus, job.gpus, node["Resources"].get("CPU", 0), node["Resources"].get("GPU", 0))


def _work(group: list[Experiment], job: Job, place: Path, number: int) -> list[Outcome] | None:
    """A task's life: run the group, tell how far it is, and stop when asked."""
    ray = _ray()
    [here] = [node for node in ray.nodes() if node["NodeID"] == ray.get_runtime_context().get_node_id()]
    try:
        hear = Teller(place, number, job.stop)
        return run_group(group, replace(job, hear=hear, share=max(1, _fit(here, job))), wait=False)
    except Interrupted:
        return None


def _ray() -> Any:
    """The module, which has no types, imported where it is used alone: it takes a second."""
    import ray.util.scheduling_strategies  # pyright: ignore[reportMissingImports]

    return ray


@contextlib.contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    check_extra("ray", "ray", "A sweep on a Ray cluster")
    ray = _ray()
    begun = not ray.is_initialized()
    if begun:
        if address and ":" in address and not address.startswith("ray://"):
            _check_somebody_listens(address)
        try:
            ray.init(
                address=address,
                include_dashboard=None if address else False,
                log_to_driver=False,
                logging_level="error",
            )
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            raise _no_cluster(address, error) from error
    try:
        yield ray
    finally:
        if begun:
            ray.shutdown()


def _check_somebody_listens(address: str) -> None:
    """Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str | None, error: Exception) -> Error:
    why = next(iter(str(error).splitlines()), type(error).__name__)
    return Error(
        f"There is no Ray cluster at {address or 'this machine'} ({why}). Start one with `ray start --head`, which "
        "names its address, or leave the address out to use this machine alone."
    )


def _check_nodes(ray: Any, root: Path) -> None:
    """Raise unless every node has this version of the package and sees the directory of the records."""
    root.mkdir(parents=True, exist_ok=True)
    mark = root / f".seen-by-{uuid.uuid4().hex}"
    mark.touch()

    def look(path: str) -> tuple[str | None, bool]:
        # It is sent as code, for there may be no package to find it in.
        import importlib
        import os

        try:
            version = importlib.import_module("lengthwise").__version__
        except ImportError:
            version = None
        return version, os.path.exists(path)

    try:
        nodes = {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]}
        on = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        asked = {
            host: ray.remote(num_cpus=0)(look).options(scheduling_strategy=on(node, soft=False)).remote(str(mark))
            for node, host in nodes.items()
        }
        for host, answer in asked.items():
            version, seen = ray.get(answer)
            if version != __version__:
                has = "no lengthwise" if version is None else f"lengthwise {version}"
                raise Error(
                    f"{host}: a node of the cluster has {has}, and this is {__version__}. Install the same there."
                )
            if not seen:
                raise Error(
                    f"{host}: a node of the cluster does not see {root}. Give --out a directory on storage that all "
                    "nodes share."
                )
    finally:
        mark.unlink(missing_ok=True)
