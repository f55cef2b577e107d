"""How large a request may be: every limit is named here, and asked before memory is taken or time is spent.

    LENGTHS.check(10**11, "--test-lengths")

A `Limit` is raised by the environment: LENGTHWISE_MAX_LENGTHS=2000000. The largest values of options are plain numbers,
which stand in the options' bounds. What depends on the machine is compared with the memory that is free: `need_memory`
for what can be reckoned beforehand, and `within_memory` for whatever a model makes while it is built.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .errors import Error, OutOfMemory, TooLarge

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Limit:
    """A number of things which is refused above `usual`, or above what the environment says."""

    name: str
    usual: int
    things: str
    instead: str
    """What to do about too many."""

    @property
    def variable(self) -> str:
        return f"LENGTHWISE_MAX_{self.name}"

    @property
    def most(self) -> int:
        value = os.environ.get(self.variable, str(self.usual))
        if not (value.isascii() and value.isdecimal() and len(value) < 20):
            raise Error(f"{self.variable} must be a whole number, got {value!r}. Unset it to have {self.usual}.")
        return int(value)

    def check(self, count: int, owner: str) -> None:
        if count > self.most:
            raise self.exceeded(owner, in_figures(count))

    def exceeded(self, owner: str, got: str = "more") -> TooLarge:
        return TooLarge(f"{owner}: at most {self.most:,} {self.things}, got {got}. {self.remedy}")

    @property
    def remedy(self) -> str:
        """Without its full stop, which whoever names a verdict sets."""
        return f"{self.instead}, or raise the limit: {self.variable}=…"

    @property
    def surpassed(self) -> str:
        """The end of a sentence that says why something was not done."""
        return f"more than {self.most:,} {self.things}. {self.remedy}"


LENGTHS = Limit("LENGTHS", 1_000_000, "different lengths", "Take larger steps, as in 41:500:20")
LENGTH = Limit("LENGTH", 1 << 20, "symbols in a string", "Ask for shorter strings")
BATCH_TOKENS = Limit("BATCH_TOKENS", 1 << 26, "tokens in a step", "Lower training.batch or training.lengths")
EXPERIMENTS = Limit("EXPERIMENTS", 10_000, "runs in one grid", "Ask for fewer seeds or models")
REGEX_STATES = Limit("REGEX_STATES", 5_000, "states of a regular expression", "Use fewer or smaller repetitions")
SYMBOLS = Limit("SYMBOLS", 1000, "symbols in an alphabet", "Name those you need alone")
TABLE = Limit("TABLE", 20_000_000, "entries in a machine's table", "Use fewer states or symbols")
PROBED = Limit("PROBED", 500_000, "tokens to look at", "Ask for fewer or shorter strings")
LINKS = Limit("LINKS", 4_000_000, "pairs of tokens to link", "Look at a shorter string")
LAYERS = Limit("LAYERS", 10_000, "layers", "Use fewer")
WEIGHTS = Limit("WEIGHTS", 100_000, "tensors in a model", "Use fewer layers")

# The largest values of options.
STEPS = 1_000_000_000
SAMPLES = 10_000_000
WORKERS = 1024
STATE = 4096
"""Numbers in a state of a state space; its layers begin from matrices of as many rows and columns."""
CLASSES = 1000
"""Different symbols or answers of a task whose machine has a state for each."""
PLACES = 100_000
"""Places of a ring, whose machine has three symbols."""
DEPTH = 1000
"""Levels of brackets: strings shorter than twice as many cannot tell the limit from none."""
STATES = 100_000
MONOID = 20_000
PRODUCT = 1_000_000
"""What a search over states or elements finds at most, unless its `limit` says otherwise."""

ROOT = Path("/")
"""Where the system says what is free."""
UNLIMITED = 1 << 62
UNASKED = 1 << 28
"""Bytes that are taken without a look at what is free."""
TEST_PART = 1 << 28
"""About how many bytes of test strings and answers are held at a time."""


def memory_free(device: torch.device = CPU) -> int:
    """Bytes this process may use on the device. What cannot be known counts as unlimited."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + _kept(device)
    if device.type not in ("cpu", "mps"):
        return UNLIMITED
    return min(_machine_free(), _group_free())


def _kept(device: torch.device) -> int:
    """Bytes of a GPU that torch keeps for tensors to come. The GPU itself is not asked for them."""
    return torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def _machine_free() -> int:
    try:
        with open(ROOT / "proc/meminfo") as file:
            return 1024 * next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return UNLIMITED


def _group_free() -> int:
    """Bytes left to the control groups of this process, such as a container's, and to those around them."""
    try:
        lines = (ROOT / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return UNLIMITED
    free = UNLIMITED
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            folder, names = ROOT / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            folder = ROOT / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = PurePosixPath(path.lstrip("/"))
        free = min(free, *(_left(folder / part, *names) for part in (group, *group.parents)))
    return free


def _left(group: Path, most: str, used: str, cache: str) -> int:
    """Bytes below a group's limit. Copies of files that nobody reads give way, so they are not taken."""
    try:
        left = int((group / most).read_text()) - int((group / used).read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return max(0, left + int(stat.get(cache, 0)))
    except (OSError, ValueError):  # no such file, or the limit is "max"
        return UNLIMITED


def need_memory(size: int, what: str, instead: str, device: torch.device = CPU) -> None:
    """Raise `OutOfMemory` unless `size` bytes are free. `what` takes a plural verb; `instead` is a sentence."""
    if size <= UNASKED or torch.compiler.is_compiling() or (device.type == "cuda" and size <= _kept(device)):
        return
    if size > (free := memory_free(device)):
        raise OutOfMemory(f"{what} need at least {amount(size)} of memory, and {amount(free)} are free. {instead}")


@contextmanager
def within_memory(what: str, instead: str, most: int = UNLIMITED) -> Iterator[None]:
    """A block that makes tensors: it ends with an `Error` before they need more memory than is free, or `most` bytes
    in all."""
    with _Counting(what, instead, most):
        yield


class _Counting(TorchFunctionMode):
    """Sees every tensor that is made of nothing but its shape, before it is made.

    Those made since the last look at a device's memory are compared with what is free on it now. So what is freed
    counts no longer, and many small tensors are refused when memory is really full.
    """

    makers = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.eye, torch.arange)

    def __init__(self, what: str, instead: str, most: int):
        super().__init__()
        self.what, self.instead, self.left = what, instead, most
        self.count = 0
        self.since: dict[torch.device, int] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in self.makers and kwargs.get("out") is None:
            shape = {key: value for key, value in kwargs.items() if key not in ("generator", "pin_memory")}
            made = self._weightless(func, args, shape)
            self.count += 1
            WEIGHTS.check(self.count, self.what)
            place = kwargs.get("device")
            device = torch.get_default_device() if place is None else torch.device(place)
            if device.type != "meta":
                size = made.numel() * made.element_size()
                self.left -= size
                if self.left < 0:
                    raise TooLarge(f"{self.what}: asks for more memory than its weights have. {self.instead}")
                size += self.since.get(device, 0)
                need_memory(size, f"{self.what}: its weights", self.instead, device)
                self.since[device] = size if size <= UNASKED else 0
        return func(*args, **kwargs)

    def _weightless(self, func: Any, args: Any, shape: dict[str, Any]) -> torch.Tensor:
        try:
            return func(*args, **{**shape, "device": "meta"})
        except (TypeError, RuntimeError, OverflowError) as error:
            # The sizes, or their product, are beyond 64 bits; torch has no error of its own for that.
            if "overflow" not in str(error).lower():
                raise
            what = f"{self.what}: its weights need more memory than any machine has."
            raise OutOfMemory(f"{what} {self.instead}") from None


def amount(size: int) -> str:
    """
    >>> amount(3_400_000_000), amount(10**21)
    ('3.4 GB', '1,000 EB')
    """
    size = min(size, 10**30)  # what is divided must fit a float
    for power, name in ((18, "EB"), (15, "PB"), (12, "TB"), (9, "GB")):
        if size >= 10**power:
            value = size / 10**power
            return f"{value:,.0f} {name}" if value >= 100 else f"{value:.1f} {name}"
    return f"{size / 10**6:.0f} MB"


def in_figures(count: int) -> str:
    """A number that may have thousands of digits, or a tensor's worth of text.

    >>> in_figures(10**11), in_figures(10**5000)
    ('100,000,000,000', 'a number of more than 30 digits')
    """
    return f"{count:,}" if count < 10**30 else "a number of more than 30 digits"
