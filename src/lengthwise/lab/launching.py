"""Where runs are started, by name: here, in a pool of processes, or on a Ray or a Slurm cluster; and what a run takes.

lab.run(experiments, "runs", launch="ray address=auto", cpus_per_run=2)
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import torch

from ..errors import Error, UnknownName
from ..options import schema, take, word_of
from .engines import InProcess, Processes
from .job import check_room
from .launch import Engine, Launch
from .ray_tasks import RayTasks
from .slurm_jobs import SlurmJobs

LAUNCHES: dict[str, Callable[..., Engine]] = {
    "here": InProcess,
    "pool": Processes,
    "ray": RayTasks,
    "slurm": SlurmJobs,
}


def engine_of(how: Launch, runs: int, device: str) -> Engine:
    """The engine that is named, its options behind its name.

    None: a pool of as many processes as the machine has room for, but this process where there is one run, or a GPU of
    which no share is named.

    >>> engine_of(Launch("ray address=auto"), runs=9, device="cpu").address
    'auto'
    """
    if how.launch is not None and not isinstance(how.launch, str):
        return how.launch
    name, *words = how.launch.split() or [""] if how.launch is not None else ["pool"]
    if name not in LAUNCHES:
        raise UnknownName("way to launch runs", name, LAUNCHES)
    if how.workers is not None and name != "pool":
        raise Error(f"workers={how.workers} is how many processes a pool has, got launch {name!r}. Leave it out.")
    kind, given = LAUNCHES[name], dict[str, Any](word_of(word, "address=auto") for word in words)
    if name in ("here", "pool"):
        count = min(runs, _fitting(how, device)) or 1
        if how.launch is None and (how.workers or count) == 1:
            return InProcess()
        if name == "pool":
            given.setdefault("workers", how.workers or count)
    return kind(**take(schema(kind), given, f"launch {name}", prefix=""))


def _fitting(how: Launch, device: str) -> int:
    """How many runs at a time this machine has room for; raise where it is too small for one."""
    cpus, gpus = how.cpus_per_run or 1.0, how.gpus_per_run or 0.0
    cores, on_gpu = os.cpu_count() or 1, device.startswith("cuda")
    has = torch.cuda.device_count() if device == "cuda" else int(on_gpu)
    check_room(cpus, gpus, cores, has, "this machine has")
    if not on_gpu:
        return int(cores / cpus)
    return int(min(cores / cpus, has / gpus)) if gpus else 1


def elsewhere(launch: Engine | str | None) -> bool:
    """Whether runs are sent to machines whose devices are not those of this one."""
    if isinstance(launch, str):
        launch = LAUNCHES.get(launch.split()[0] if launch.split() else "")  # pyright: ignore[reportAssignmentType]
    return getattr(launch, "elsewhere", False)


def device_of(device: str, launch: Engine | str | None, gpus: float | None) -> str:
    """What runs are computed on: a device of this machine, or of those that they are sent to."""
    if not elsewhere(launch):
        chosen = chosen_device(device)
        if gpus and not chosen.startswith("cuda"):
            why = "torch sees none here" if device == "auto" else f"the device is {device}"
            raise Error(f"A run shall take {gpus:g} GPUs, and {why}. Ask for none.")
        return chosen
    if device not in ("auto", "cpu", "cuda"):
        raise Error(f"device must be auto, cpu or cuda where runs are sent to a cluster, got {device!r}.")
    if device == "cpu" and gpus:
        raise Error(f"A run shall take {gpus:g} GPUs, and the device is cpu. Leave one of the two out.")
    return device if device != "auto" else "cuda" if gpus else "cpu"


def chosen_device(device: str) -> str:
    """The GPU for "auto", where there is one, else the CPU; a GPU that is not there is refused."""
    if not isinstance(device, str):
        raise Error(f"device must be a text, auto, cpu, cuda or cuda:N, got {device!r}.")
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise Error(f"device must be auto, cpu, cuda or cuda:N, got {device!r}.")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise Error(f"device {device!r} was asked for, but torch sees no GPU. Use --device cpu or auto.")
    _, _, number = device.partition(":")
    if number and int(number) >= torch.cuda.device_count():
        raise Error(f"device must be one of the {torch.cuda.device_count()} GPUs from cuda:0 on, got {device!r}.")
    return device
