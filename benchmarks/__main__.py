"""Every benchmark, or those named, printed and, when asked, written to their sections of `results.md`.

python -m benchmarks                       # all: `make bench`
python -m benchmarks --record              # and written down: `make bench RECORD=1`
python -m benchmarks --record regular_gpt  # one; the other sections stay as they are
"""

from __future__ import annotations

import datetime
import io
import os
import platform
import re
import sys
from pathlib import Path

import torch
from rich.console import Console

from . import (
    block_lrnn,
    block_scan,
    chain,
    language_models,
    population,
    positions,
    regular_gpt,
    replay,
    sliding_dilated,
    tasks,
    tokens,
)

RESULTS = Path(__file__).parent / "results.md"
BENCHES = {
    "tasks": tasks.tables,
    "tokens": lambda: [tokens.table()],
    "population": lambda: [population.table()],
    "replay": lambda: [replay.table()],
    "sliding_dilated": lambda: [sliding_dilated.table()],
    "regular_gpt": regular_gpt.tables,
    "chain": chain.tables,
    "block_scan": block_scan.tables,
    "block_lrnn": block_lrnn.tables,
    "positions": positions.tables,
    "language_models": lambda: [language_models.table()],
}
HEAD = (
    "# Benchmarks\n\nWritten by `make bench RECORD=1`. Timings on a shared machine are noisy; read the ratios, "
    "which are measured in turn.\n"
)


def section(name: str) -> str:
    """Run one and return its section."""
    text = io.StringIO()
    consoles = [Console(), Console(file=text, width=110)]
    for table in BENCHES[name]():
        for console in consoles:
            console.print(table)
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}"
    )
    date = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    return f"\n## {name}\n\n{date}, {machine}.\n\n```\n{text.getvalue().strip()}\n```\n"


def main(words: list[str]) -> None:
    asked, record = [word for word in words if word != "--record"], "--record" in words
    if unknown := set(asked) - set(BENCHES):
        raise SystemExit(f"No benchmark {', '.join(sorted(unknown))}. Known: {', '.join(BENCHES)}.")
    old = RESULTS.read_text() if RESULTS.exists() else ""
    parts = re.findall(r"^## (\w+)$(.*?)(?=^## |\Z)", old, re.M | re.S)
    found = {name: f"\n## {name}\n\n{text.strip()}\n" for name, text in parts if name in BENCHES}
    for name in asked or BENCHES:
        found[name] = section(name)
        if record:
            RESULTS.write_text(HEAD + "".join(found[name] for name in BENCHES if name in found))


if __name__ == "__main__":
    main(sys.argv[1:])
