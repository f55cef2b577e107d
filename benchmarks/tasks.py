"""How fast tasks make labelled strings: million tokens a second, whole `sample` calls with targets, one core."""

from __future__ import annotations

import time
from statistics import median

import torch
from rich.table import Table

from lengthwise import tasks
from lengthwise.tasks import Task

BATCH, LENGTH = 128, 500
BOUNDS = [
    ("parity", {}, 20),
    ("cycle-navigation", {}, 20),
    ("even-pairs", {}, None),
    ("modular-sum", {}, None),
    ("modular-arithmetic", {}, 5),
    ("modular-arithmetic", {"brackets": True}, None),
    ("word-problem", {"group": "S5"}, 5),
    ("word-problem", {"group": "A5"}, None),
    ("d-4", {}, 2),
    ("d-12", {}, None),
    ("tomita-5", {}, 2),
    ("tomita-3", {}, None),
    ("tomita-3", {"protocol": "next"}, None),
    ("regex", {"pattern": "(ab|ba)*"}, None),
]
"""Name, settings, and the million tokens a second that are promised."""


def throughput(task: Task, repeats: int) -> float:
    """Million tokens a second: the median over `repeats` calls, after one that fills the caches."""
    length = task.lengths(LENGTH - 1, LENGTH)[-1]
    generator = torch.Generator().manual_seed(0)
    seconds = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        task.sample(length, BATCH, generator)
        seconds.append(time.perf_counter() - start)
    return BATCH * length / median(seconds[1:]) / 1e6


def table(repeats: int = 20) -> Table:
    """One row a task."""
    torch.set_num_threads(1)
    found = Table(title=f"Tasks: sampling with targets, batch {BATCH}, length {LENGTH}, one core")
    for column in ("task", "settings", "M tokens/s", "at least"):
        found.add_column(column)
    for name, params, bound in BOUNDS:
        speed = throughput(tasks.get(name, **params), repeats)
        settings = ", ".join(f"{key}={value}" for key, value in params.items())
        found.add_row(name, settings, f"{speed:.1f}", "" if bound is None else f"{bound}")
    return found
