"""What a network must have learned to be consolidated: accepted or refused, and what it keeps, by training steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import Any

from lengthwise.lab import Experiment, Run, plan
from lengthwise.recipes import Cell, Grid, Recipe, Scale, settings_of
from lengthwise.recipes.proof import networks, scales, table
from lengthwise.report import Panel, Table, TableCell, percent

Key = tuple[str, str, int]
"""A cell's task, model and training steps."""
STEPS: dict[Scale, tuple[int, ...]] = {"smoke": (0, 1), "laptop": (0, 1, 10, 100, 1000), "paper": (0, 1, 10, 100, 1000)}
SEEDS: dict[Scale, int] = {"smoke": 1, "laptop": 3, "paper": 10}
TASKS = ("parity", "cycle-navigation")
STRINGS = scales.StringCounts(near=40, lengths=1, samples=1, far={}, stepwise=0)
QUESTION = networks.NetworkQuestion(scales.Budget(2.0, 30.0), STRINGS, consolidate=True)
HEAD = ["model", "steps", "right", "taken", "proved", "kept"]
CAPTION = (
    "right: the share of held-out strings of the training lengths that each network answers right, in %, a number for "
    "each seed; 95 is the least. taken: how many are consolidated, or proved as they were learned. kept: codes "
    "(discrete), sets of nodes (RegularGPT), neurons or entries that are its own, of each that was taught."
)


def recipe(scale: Scale) -> Recipe:
    """Networks after 0 to 1,000 training steps: which are consolidated, which refused, and what is kept of each."""

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        by_task: dict[str, list[dict[str, Any]]] = {}
        for (task, model, steps), runs in finished.items():
            for run in runs:
                made = networks.networks(run, QUESTION, device)
                last = made[-1]  # the copy; or what is proved as it was learned
                row = {"model": model, "steps": steps, "seed": run.experiment.seed, "taken": last.raw != "refused"}
                by_task.setdefault(task, []).append({**row, "right": made[0].short, **asdict(last)})
        return [_panel(task, rows) for task, rows in by_task.items()]

    keys = product(TASKS, scales.MODELS, STEPS[scale])
    return Recipe(
        title="What must be learned before it is consolidated",
        description="A network is trained for some steps and then asked to be taught the algebra of its machine.",
        grid=Grid([Cell(key, partial(planned, scale, *key), label=key[0]) for key in keys]),
        report=report,
    )


def planned(scale: Scale, row: str, model: str, steps: int) -> list[Experiment]:
    settings = {**settings_of(scales.RULES[scale], row, model), "training.steps": max(steps, 1)}
    task = table.task_of(row, settings.pop("supervision"))
    lengths = task.lengths(1, scales.ASKED[scale].near)[-1:]  # so a run of `proof table` is a run of this
    del settings["seeds"]
    settings |= {"training.lr": 1e-60} if steps == 0 else {}  # a step by nothing, in float32
    preset, own = scales.MODELS[model]
    return plan(task, [preset], seeds=SEEDS[scale], test_lengths=lengths, settings={**settings, **own})


def _panel(task: str, rows: list[dict[str, Any]]) -> Panel:
    cells: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["model"], row["steps"]), []).append(row)
    lines = []
    for (model, steps), mine in cells.items():
        taken = [row for row in mine if row["taken"]]
        shares = ", ".join(f"{row['kept']['own']}/{row['kept']['all']}" for row in taken if row["kept"]) or "–"
        proved = sum(row["raw"] == "proved" for row in taken)
        right = ", ".join(percent(row["right"]) for row in mine)
        lines.append([model, f"{steps:,}", right, _taken(len(taken), len(mine)), str(proved), shares])
    finding = (
        f"{task}: {sum(row['taken'] for row in rows)} of {len(rows)} networks are consolidated or proved as learned."
    )
    return Table(task, CAPTION, HEAD, lines, data=rows, finding=finding)


def _taken(count: int, of: int) -> TableCell:
    return TableCell(f"{count} of {of}", shade=count / of)
