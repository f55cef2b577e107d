"""What made a record: the version, the commit where the library runs from a git checkout, and the machine."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch

from .. import __version__


@cache
def code_version() -> dict[str, Any]:
    """`commit` is None where the library is installed; `clean` says whether its files were as committed."""
    package = Path(__file__).parent.parent
    # A package installed into a folder of somebody else's repository is none of its files.
    tracked = _git(package, "ls-files", "--error-unmatch", "__init__.py")
    commit = _git(package, "rev-parse", "HEAD") if tracked else None
    changes = _git(package, "status", "--porcelain", "--", ".") if commit else None
    return {"version": __version__, "commit": commit, "clean": changes == "" if changes is not None else None}


def _git(folder: Path, *words: str) -> str | None:
    """Returns what git says in one line or more; None where there is no git or it refuses."""
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@cache
def _cpu() -> str:
    """The name of the processor, as far as the system tells it."""
    with suppress(OSError):
        names = re.findall(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        if names:
            return names[0]
    return platform.processor() or platform.machine()


def made_by_other_code(recorded: dict[str, Any] | None) -> bool:
    """True if what a record says of its code is not surely the code that runs here."""
    here = code_version()
    if recorded is None or recorded["version"] != here["version"]:
        return True
    return recorded["commit"] != here["commit"] or False in (recorded["clean"], here["clean"])


def machine(device: str) -> dict[str, Any]:
    """Returns what the result was computed with; `load` is how many processes wanted a core in the last minute."""
    import transformers

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "lengthwise": __version__,
        "platform": platform.platform(),
        "cpu": _cpu(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else device,
    }
