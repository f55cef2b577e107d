"""Runs command lines and calls, one after another in one process, and tells of each that ends badly.

    python command_child.py < lines.json

stdin is a JSON list of what `command_lines.drawn` gives. stdout gets a line `[number]` as each begins, and
`[number, why, what was on stderr]` if it ends badly. More memory than `MEMORY`, and a hang in code that cannot be
interrupted, end the process; the number begun last says which line it was.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import runpy
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch

from lengthwise import Error, automata, insight, lab, limits, mixers, models, ops, positions, report, tasks
from lengthwise.cli import main
from lengthwise.lab import job

SECONDS = 20
"""Of processor time, which is the same on a busy machine."""
WALL = 900
"""Seconds of a line that waits for something."""
MEMORY = 4 * 2**30
FREE = 2 * 2**30
"""Bytes that are free, as the library is told, so that it refuses the same on every machine."""

MISUSES = runpy.run_path(str(Path(__file__).parent.parent / "laws" / "misuses.py"))["MISUSES"]
ROOMS = {"automata": automata, "insight": insight, "lab": lab, "mixers": mixers, "models": models, "ops": ops}
ROOMS |= {"positions": positions, "report": report, "tasks": tasks, "torch": torch}
OURS = "|".join(map(re.escape, models.available()))
# An unexpected error of a model of this library's, said in the words that are for models of others.
BLAMED = re.compile(rf"\b({OURS}): [a-z ]+: \w+(Error|Exception)\b")


class Hang(BaseException):
    """The line has used up its time."""


def peak() -> int:
    """The most memory that this process, or one that it started, has held."""
    most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return most * (1 if sys.platform == "darwin" else 1024)


def watch_memory(tell: Any) -> None:
    while True:
        if peak() > MEMORY:
            tell("more than 4 GB")
            os._exit(3)
        time.sleep(0.05)


def outcome(line: list[str], out: io.StringIO, err: io.StringIO, unexpected: list[str]) -> str:
    """Run the line; why it ended badly, or ""."""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        if line[0] in ("python", "misuse"):
            with contextlib.suppress(Error):
                eval(line[1], dict(ROOMS)) if line[0] == "python" else MISUSES[line[1]][0]()
            return ""
        code = main(line)
    said = err.getvalue()
    if code not in (0, 1, 2) or "(unexpected;" in said or unexpected:
        return f"exit code {code} {' '.join(unexpected)}"
    if code == 2 and not re.search(r"^error: .", said, re.MULTILINE):
        return "a mistake without its line"
    if "Traceback" in said and "--debug" not in line:
        return "a traceback"
    if BLAMED.search(said):
        return "an error inside a model of this library"
    return "an escape sequence" if re.search(r"[\x1b\x07]", out.getvalue() + said) else ""


def run(lines: list[list[str]]) -> None:
    began, hung, unexpected = [0], [], []
    told = sys.stdout

    def tell(why: str, said: str = "") -> None:
        print(json.dumps([began[-1], why, said[-600:]]), file=told, flush=True)

    def hang(signum: int, frame: object) -> None:
        hung.append(signum)
        raise Hang

    def failure(directory: Any, error: Exception) -> Any:
        if not isinstance(error, Error):
            unexpected.append(f"{type(error).__name__}: {error}")
        return usual(directory, error)

    usual, job.failure = job.failure, failure
    limits.memory_free = lambda device=limits.CPU: FREE
    threading.Thread(target=watch_memory, args=[tell], daemon=True).start()
    for each in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(each, hang)
    for number, line in enumerate(lines):
        began.append(number)
        hung.clear()
        unexpected.clear()
        print(json.dumps([number]), file=told, flush=True)
        out, err, why = io.StringIO(), io.StringIO(), ""
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(WALL)
        try:
            why = outcome(line, out, err, unexpected)
        except BaseException as error:
            why = f"{type(error).__name__}: {error}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
        # A hang may be caught on its way and be told as something else.
        if why or hung:
            tell("a hang" if hung else why, err.getvalue())


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(json.load(sys.stdin))
