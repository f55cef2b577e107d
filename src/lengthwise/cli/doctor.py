"""`lengthwise doctor`: what this machine can run, and what each part is for.

Required parts that are missing or too old make the finding bad (exit 1); optional ones never do.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from . import console
from .verb import verb

GIB = 2**30
GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""NVIDIA's, AMD's, and Windows' own under WSL."""
MARKS = {"ok": Text("✓", style="green"), "absent": Text("–", style="dim"), "bad": Text("✗", style="red")}


@dataclass(frozen=True)
class Check:
    name: str
    status: Literal["ok", "absent", "bad"]
    found: str
    purpose: str


def examine() -> Iterator[Check]:
    """Every check, in the order of the table."""
    yield from _machine()
    yield from _torch()
    yield _package("transformers", "the model format: Auto classes, generation", required=True)
    yield from _optional()


def _machine() -> Iterator[Check]:
    good = sys.version_info >= (3, 11)
    yield Check("python", "ok" if good else "bad", platform.python_version(), "3.11 or newer is needed")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Check("cores", "ok", str(cores), "bench runs one experiment per core at a time (--workers)")
    memory = _memory()
    status = "ok" if memory is None or memory > GIB else "bad"
    size = "unknown" if memory is None else f"{memory / GIB:.1f} GiB"
    yield Check("memory", status, size, "about 0.5 GiB for every run at a time")
    free = shutil.disk_usage(Path.cwd()).free
    yield Check("disk", "ok" if free > GIB / 4 else "bad", f"{free / GIB:.1f} GiB free here", "records and checkpoints")


def _memory() -> int | None:
    """Bytes this process may use: the machine's, or its container's if that is less."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


def _torch() -> Iterator[Check]:
    check = _package("torch", "everything", required=True)
    yield check
    if check.status != "ok":
        return
    threads = os.environ.get("OMP_NUM_THREADS")
    detail = f"{threads} (OMP_NUM_THREADS)" if threads else "one a core"
    yield Check("threads", "ok", detail, "of one process; bench gives each of its runs one")
    cuda, gpu, bf16 = _gpu() if _may_have_gpu() else (False, "", False)
    yield Check("GPU", "ok" if gpu else "absent", gpu or "none", "the papers' full sizes; laptop sizes do without")
    detail = "on the GPU" if bf16 else "on the CPU only, slow" if not cuda else "not on this GPU"
    yield Check("bf16", "ok" if bf16 or not cuda else "absent", detail, "training.precision=bf16")
    triton = importlib.util.find_spec("triton") is not None
    detail = metadata.version("triton") if triton else "not installed"
    detail += "" if cuda or not triton else ", but no GPU"
    yield Check("triton", "ok" if triton and cuda else "absent", detail, "what torch.compile generates on a GPU")
    compiler = next(filter(None, map(shutil.which, [os.environ.get("CXX") or "c++", "g++", "clang++"])), None)
    yield Check("C++ compiler", "ok" if compiler else "absent", compiler or "none", "torch.compile on the CPU")


def _may_have_gpu() -> bool:
    """True if torch is worth the seconds of its import: no GPU is used without one of these."""
    return sys.platform == "darwin" or any(Path(device).exists() for device in GPU_DEVICES)


def _gpu() -> tuple[bool, str, bool]:
    """Returns whether torch sees CUDA, the names of the GPUs, and whether they know bf16."""
    import torch

    if not torch.cuda.is_available():
        return False, "Apple GPU" if torch.backends.mps.is_available() else "", False
    devices = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    gpu = ", ".join(f"{d.name} ({d.total_memory / GIB:.0f} GiB)" for d in devices)
    return True, gpu, torch.cuda.is_bf16_supported()


def _optional() -> Iterator[Check]:
    """Yields a check of each extra of this package."""
    for need in metadata.requires("lengthwise") or ():
        extra = re.fullmatch(r"([\w-]+).*; extra == .([\w-]+).", need)
        if extra and extra[2] not in ("test", "dev"):
            yield _package(extra[1], f"pip install 'lengthwise[{extra[2]}]'")


def _package(name: str, purpose: str, required: bool = False) -> Check:
    try:
        return Check(name, "ok", metadata.version(name), purpose)
    except metadata.PackageNotFoundError:
        return Check(name, "bad" if required else "absent", "not installed", purpose)


@verb
def doctor(as_json: console.Json = False) -> None:
    """Show what this machine can run, and what each part is for.

    The exit code is 1 if a required part is missing.

    Example: [bold]lengthwise doctor[/bold]
    """
    checks = list(examine())
    if as_json:
        console.emit({"checks": [asdict(check) for check in checks]})
    else:
        table = Table(box=box.SIMPLE_HEAD)
        for column in ("", "what", "found", "what it is for"):
            # What is too long for a narrow terminal is broken, never cut.
            table.add_column(column, overflow="fold")
        for check in checks:
            table.add_row(MARKS[check.status], check.name, Text(check.found), Text(check.purpose, style="dim"))
        console.out().print(table)
    if any(check.status == "bad" for check in checks):
        raise typer.Exit(1)
