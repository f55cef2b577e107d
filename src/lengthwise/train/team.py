"""The processes that torchrun started to train one model together, one a device; that of rank 0 leads.

    torchrun --nproc-per-node 2 -m lengthwise train …

The leader alone has the records. What it alone knows it tells the others (`tell`), and what it alone does succeeds or
fails for all (`led`). So all processes take the same turns, which is what their collective calls depend on.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import socket
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from .. import __version__
from ..errors import Error, NonFiniteError, in_words
from .trainer import Interrupted

Made = TypeVar("Made")

SET_BY_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
PATIENCE = timedelta(days=30)
"""How long the others wait for the leader, which may have a corpus to read or a model to test."""
WHY, SAID = "lengthwise/why", "lengthwise/said"
"""Under these names processes leave word for one another, where collective calls have failed."""
GONE = re.compile(r"gloo|nccl|connection|peer|socket|broken pipe|store", re.I)
"""What torch's errors say when another process has ended."""


class RankError(Error):
    """An error of one process of several, told by that process; of all else the leader speaks."""

    exit_code = 1
    said_by_all = True


def under_torchrun() -> bool:
    return all(name in os.environ for name in SET_BY_TORCHRUN)


def follows() -> bool:
    """Returns whether this process was started by torchrun and does not lead."""
    return under_torchrun() and os.environ["RANK"] != "0"


class Team:
    """Join it in every process; `device` is cpu or cuda, and of cuda each process takes the GPU of its own number."""

    def __init__(self, device: str):
        if not under_torchrun():
            raise Error("Only torchrun starts the processes of a team.")
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.leads = self.rank == 0
        self.broken = False
        """Whether a collective call failed here: then nobody knows what the others wait for."""
        self._told: BaseException | None = None
        if not dist.is_initialized():
            # Where some machine has no GPU that is found out below, by all.
            on_gpu = device.startswith("cuda") and torch.cuda.is_available()
            dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=PATIENCE)
            atexit.register(dist.destroy_process_group)
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self.store = dist.TCPStore(address, port, is_master=False)  # pyright: ignore[reportPrivateImportUsage]
        self.control: Any = dist.new_group(backend="gloo", timeout=PATIENCE)
        self._check(device)
        self.device = torch.device("cpu")
        if device.startswith("cuda"):
            self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(self.device)

    def _check(self, device: str) -> None:
        """Raise, in all processes alike, where one of them cannot do its part."""
        mine = socket.gethostname(), __version__, int(os.environ["LOCAL_WORLD_SIZE"]), torch.cuda.device_count()
        for host, version, here, gpus in self.all(mine):
            if version != __version__:
                raise Error(f"{host}: it has lengthwise {version}, and this is {__version__}.")
            if device.startswith("cuda") and here > gpus:
                raise Error(
                    f"{host}: each of the {here} processes there needs a GPU of its own, and torch sees {gpus}. "
                    f"Use --nproc-per-node {gpus or 1}, or --device cpu."
                )

    def tell(self, value: Made) -> Made:
        """The leader's value, in every process."""
        box = [value if self.leads else None]
        dist.broadcast_object_list(box, src=0, group=self.control)
        return box[0]  # pyright: ignore[reportReturnType]

    def all(self, value: Made) -> list[Made]:
        """The values of all processes, by rank."""
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self.control)
        return values

    def led(self, work: Callable[[], Made]) -> Made:
        """Runs `work` in the leader and returns its result in every process; its error is everybody's."""
        made, error = None, None
        if self.leads:
            try:
                made = work()
            except Exception as raised:
                error = raised
        made, problem = self.tell((made, error and in_words(str(error))))
        if problem is not None:
            self._told = error or Error(f"The leading process failed: {problem}")
            raise self._told
        return made  # pyright: ignore[reportReturnType]

    def each(self, work: Callable[[], Made]) -> Made:
        """Runs `work` in every process; an error of one is everybody's."""
        made, error = None, None
        try:
            made = work()
        except Exception as raised:
            error = raised
        where = f"{type(error).__name__} in process {self.rank} on {socket.gethostname()}: {error}"
        errors = [each for each in self.all(error and (str(error) if isinstance(error, Error) else where)) if each]
        if errors:
            self._told = error or Error(errors[0])
            raise self._told
        return made  # pyright: ignore[reportReturnType]

    def part(self) -> None:
        """Wait until all have heard the last word, so that nobody ends while another still listens."""
        with contextlib.suppress(RuntimeError):
            dist.barrier(group=self.control)

    def sum(self, tensor: Tensor) -> Tensor:
        dist.all_reduce(tensor)
        return tensor

    def in_step(self, error: BaseException) -> bool:
        """Returns whether the other processes have met this error too, and all can go on with something else."""
        met = error is self._told or isinstance(error, (NonFiniteError, Interrupted))
        return met and not self.broken

    def fail(self, error: Exception) -> None:
        """This process cannot go on; the leader, which will see no more than that, is to know why."""
        self.broken = True
        if not isinstance(error, RuntimeError) or not GONE.search(str(error)):
            problem = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
            self._leave(WHY, f"process {self.rank} on {socket.gethostname()}: {problem}")

    def why(self) -> str:
        """Returns why the processes could not go on together; asked for, it is taken as said."""
        self._leave(SAID, "")
        return self._left(WHY) or "another of its processes ended"

    def leader_is_gone(self) -> bool:
        """Returns whether the leader ended without a word, so that this process must speak in its place."""
        deadline = time.monotonic() + 2
        while self.rank == 1 and time.monotonic() < deadline:
            if self._left(SAID) is not None:
                return False
            time.sleep(0.1)
        return self.rank == 1

    def _leave(self, name: str, word: str) -> None:
        # Torchrun holds the store; where it does not, the store may be gone with the leader.
        with contextlib.suppress(RuntimeError):
            self.store.set(name, word)

    def _left(self, name: str) -> str | None:
        with contextlib.suppress(RuntimeError):
            return self.store.get(name).decode() if self.store.check([name]) else None
        return None
