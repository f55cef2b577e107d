"""Where runs are started, by name: here, in a pool of processes, or on a Ray cluster.

lab.run(experiments, "runs", launch="ray address=auto cpus=2")
"""

from __future__ import annotations

import os
from collections.abc import Callable

from ..errors import Error, UnknownName
from ..options import schema, take, word_of
from .engines import Engine, InProcess, Processes
from .ray_tasks import RayTasks

LAUNCHES: dict[str, Callable[..., Engine]] = {"here": InProcess, "pool": Processes, "ray": RayTasks}


def engine_of(launch: Engine | str | None, *, workers: int | None, runs: int, device: str) -> Engine:
    """The engine that is named, its options behind its name.

    None: a pool of a process a core, but this process where there is one run or a GPU.

    >>> engine_of("ray address=auto cpus=2", workers=None, runs=9, device="cpu").cpus
    2.0
    """
    if launch is not None and not isinstance(launch, str):
        return launch
    count = workers or (1 if device.startswith("cuda") else min(os.cpu_count() or 1, runs))
    if launch is None:
        return InProcess() if count == 1 else Processes(count)
    name, *words = launch.split() or [""]
    if name not in LAUNCHES:
        raise UnknownName("way to launch runs", name, LAUNCHES)
    kind, given = LAUNCHES[name], dict(word_of(word, "address=auto") for word in words)
    if workers is not None and name != "pool":
        raise Error(f"workers={workers} is how many processes a pool has, got launch {name!r}. Leave it out.")
    if name == "pool":
        given.setdefault("workers", count)  # pyright: ignore[reportArgumentType]
    return kind(**take(schema(kind), given, f"launch {name}", prefix=""))
