"""Groups of experiments as tasks of a Ray cluster; their records are on storage that all its nodes share.

A task whose node dies is started again by Ray on another, and goes on from the run's last checkpoint. Ray keeps nothing
of a result: that is in the run's record, so a sweep that was stopped goes on by the same call, with Ray or without.
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
from ..options import check_fields
from ..train import Interrupted, Progress, Stop
from .engines import Groups, Lost, News, Pool, Pooled, Work, now_and_then
from .experiment import Experiment
from .job import Job, Outcome, failure, room, run_group
from .records import RunDirectory

START_AGAIN = 3
"""How often a task is started again whose node died."""
TELL_EVERY = 0.5
"""Seconds between two messages of a task, each a call over the network."""


@dataclass(frozen=True)
class RayTasks(Pooled):
    """Each group a task of a Ray cluster, as many at a time as its nodes have room for."""

    address: Annotated[str | None, "The cluster, as in HOST:6379, ray://HOST:10001 or auto; none: this machine."] = None

    elsewhere: ClassVar[bool] = True

    def __post_init__(self):
        check_fields(self, "{}".format)

    @contextlib.contextmanager
    def pool(self, groups: Groups, job: Job) -> Iterator[Pool]:
        with _connected(self.address) as ray:
            _check_room(ray, job)
            _check_nodes(ray, job.root)
            listener = ray.remote(num_cpus=0)(_Listener).options(scheduling_strategy=_on(ray, _own_node(ray))).remote()
            try:
                yield _RayPool(ray, listener, job)
            finally:
                ray.kill(listener)


class _RayPool:
    """Tasks of a cluster."""

    together, pause = 1, TELL_EVERY

    def __init__(self, ray: Any, listener: Any, job: Job):
        self.ray, self.listener, self.job = ray, listener, job
        self.start = ray.remote(num_cpus=job.cpus, num_gpus=job.gpus, max_retries=START_AGAIN)(_work)
        self.quiet = replace(job, hear=None, waiting=None, stop=Stop())

    @property
    def room(self) -> int:
        """As many runs as the cluster has room for now, and one that waits."""
        return 1 + max(1, sum(_fit(node, self.job) for node in self.ray.nodes() if node["Alive"]))

    def submit(self, works: Sequence[Work]) -> Sequence[Any]:
        return [self.start.remote(list(group), self.quiet, self.listener) for [group] in works]

    def poll(self, active: Mapping[Any, Work]) -> Iterator[tuple[Any, News]]:
        ended = self.ray.wait(list(active), timeout=self.pause)[0]
        # Also what those that have ended told last.
        for progress in self.ray.get(self.listener.heard.remote()):
            yield None, progress
        for task in ended:
            yield task, self._news(task, active[task])

    def _news(self, task: Any, work: Work) -> News:
        errors = self.ray.exceptions
        try:
            return self.ray.get(task)
        except errors.RayTaskError as error:
            return [failure(RunDirectory(self.job.root, e), error.cause or error) for group in work for e in group]
        except errors.RayError as error:
            why = next(iter(str(error).splitlines()), type(error).__name__)
            return Lost(f"the task was lost {START_AGAIN + 1} times ({why})")

    def stop(self) -> None:
        self.ray.get(self.listener.ask_to_stop.remote())

    def cancel(self, known: Any) -> None:
        self.ray.cancel(known, force=True)


def _fit(node: Mapping[str, Any], job: Job) -> int:
    """How many runs a node has room for."""
    return room(job, node["Resources"].get("CPU", 0), node["Resources"].get("GPU", 0))


def _check_room(ray: Any, job: Job) -> None:
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for kind, asked in (("CPU", job.cpus), ("GPU", job.gpus)):
        most = max((node.get(kind, 0) for node in nodes), default=0)
        if asked > most:
            name = "cores" if kind == "CPU" else "GPUs"
            raise Error(f"A run shall take {asked:g} {name}, and no node of the cluster has more than {most:g}.")


class _Listener:
    """Hears what tasks have to tell, and tells them whether to stop; it lives beside whoever waits for them."""

    def __init__(self):
        self.latest: dict[str, Progress] = {}
        self.stop = False

    def tell(self, progress: Progress | None) -> bool:
        if progress is not None:
            self.latest[progress.what] = progress
        return self.stop

    def heard(self) -> list[Progress]:
        heard, self.latest = list(self.latest.values()), {}
        return heard

    def ask_to_stop(self) -> None:
        self.stop = True


def _work(group: list[Experiment], job: Job, listener: Any) -> list[Outcome] | None:
    """A task's life: run the group, tell how far it is, stop when asked or when nobody listens any more."""
    ray = _ray()
    [here] = [node for node in ray.nodes() if node["NodeID"] == _own_node(ray)]

    def tell(progress: Progress) -> None:
        try:
            job.stop.asked = job.stop.asked or ray.get(listener.tell.remote(progress))
        except ray.exceptions.RayError:
            job.stop.asked = True

    hear = now_and_then(tell, TELL_EVERY)
    try:
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


def _own_node(ray: Any) -> str:
    return ray.get_runtime_context().get_node_id()


def _on(ray: Any, node: str) -> Any:
    return ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)


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
        asked = {
            host: ray.remote(num_cpus=0)(look).options(scheduling_strategy=_on(ray, node)).remote(str(mark))
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
