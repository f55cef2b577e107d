"""How fast tasks make labelled strings: million tokens a second, whole `sample` calls with targets, one core.

Arithmetic with its steps is counted in problems a second.
"""

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
PROBLEMS, OPERATORS = 512, 6
PROBLEM_BOUNDS = [
    ("arithmetic-steps", {}, 30_000),
    ("arithmetic-steps", {"modulus": None, "largest": 20}, 30_000),
]
"""Name, settings, and the problems of 6 operators a second that are promised."""


def throughput(task: Task, repeats: int) -> float:
    """Million tokens a second: the median over `repeats` calls, after one that fills the caches."""
    length = task.lengths(LENGTH - 1, LENGTH)[-1]
    return BATCH * length / seconds_of_sample(task, length, BATCH, repeats) / 1e6


def problems_a_second(task: Task, repeats: int) -> float:
    """The same in problems of 6 operators, each with its chain."""
    return PROBLEMS / seconds_of_sample(task, OPERATORS, PROBLEMS, repeats)


def seconds_of_sample(task: Task, length: int, batch: int, repeats: int) -> float:
    generator = torch.Generator().manual_seed(0)
    seconds = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        task.sample(length, batch, generator)
        seconds.append(time.perf_counter() - start)
    return median(seconds[1:])


def tables(repeats: int = 20) -> list[Table]:
    return [table(repeats), problems(repeats)]


def problems(repeats: int = 20) -> Table:
    """One row for each kind of numbers."""
    torch.set_num_threads(1)
    found = Table(title=f"Arithmetic: {PROBLEMS} problems of {OPERATORS} operators with steps and targets, one core")
    for column in ("task", "settings", "problems/s", "at least"):
        found.add_column(column)
    for name, params, bound in PROBLEM_BOUNDS:
        settings = ", ".join(f"{key}={value}" for key, value in params.items())
        found.add_row(name, settings, f"{problems_a_second(tasks.get(name, **params), repeats):,.0f}", f"{bound:,}")
    return found


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
