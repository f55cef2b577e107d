"""Every benchmark, printed and written to `results.md`: `python -m benchmarks`, or `make bench`."""

from __future__ import annotations

import datetime
import io
import os
import platform
from pathlib import Path

import torch
from rich.console import Console

from . import population, sliding_dilated, tasks

HERE = Path(__file__).parent


def main() -> None:
    text = io.StringIO()
    consoles = [Console(), Console(file=text, width=100)]
    for bench in (tasks, population, sliding_dilated):
        found = bench.table()
        for console in consoles:
            console.print(found)
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}"
    )
    (HERE / "results.md").write_text(
        "# Benchmarks\n\nWritten by `make bench` "
        f"on {datetime.datetime.now(datetime.UTC):%Y-%m-%d} ({machine}).\n"
        "Timings on a shared machine are noisy; read the ratios, which are measured in turn.\n\n"
        f"```\n{text.getvalue().strip()}\n```\n"
    )


if __name__ == "__main__":
    main()
