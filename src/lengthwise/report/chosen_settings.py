"""A sweep in a report: of each model the setting that validation chose stands for it, and the whole grid beside it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from ..files import finite
from ..lab.choices import Choice, Setting, choose
from ..lab.records import Run
from .formatting import percent, short_names, table_number
from .panel import Panel, Table
from .sections import task_name

Swept = Iterable[str] | Sequence[Choice]
"""The names of the settings that were swept, or what `lab.choose` made of them."""
TITLE = "Settings chosen on validation alone"
FEW = 2
"""Up to so many choices are told at the top of a page."""


def choices_of(runs: list[Run], swept: Swept) -> list[Choice]:
    """Which setting validation chose, of each model and task."""
    names_or_choices = [swept] if isinstance(swept, str) else list(swept)
    choices = [each for each in names_or_choices if isinstance(each, Choice)]
    names = [each for each in names_or_choices if isinstance(each, str)]
    return choices or (choose(runs, names) if names else [])


def chosen_of(runs: list[Run], choices: Sequence[Choice]) -> list[Run]:
    """Of each model and task the runs of the chosen setting, and those on text; all runs where nothing was swept."""
    on_text = [run for run in runs if run.experiment.on_text]
    return [*(run for choice in choices for run in choice.chosen.runs), *on_text] if choices else runs


def note_of(choice: Choice) -> str:
    """What is said of a model's row; empty where it had one setting."""
    count = len(choice.settings)
    return f"{choice.chosen.label}: chosen of {count} settings on validation alone" if count > 1 else ""


def grid_panel(choices: Sequence[Choice]) -> list[Panel]:
    """Every setting with what it was worth on validation strings; empty where no model had several."""
    choices = [choice for choice in choices if len(choice.settings) > 1]
    if not choices:
        return []
    called = _names(choices)
    rows, data, edges = [], [], []
    for choice, name in zip(choices, called, strict=True):
        prefix = f"{name}, " if name else ""
        planned, e = max(each.seeds for each in choice.settings), choice.experiment
        grid = [_point(setting, planned) for setting in choice.settings]
        for setting, point in zip(choice.settings, grid, strict=True):
            rows.append([prefix + setting.label, *_cells(point, setting is choice.chosen)])
        about = {"task": e.task.name, "model": e.model.name, "settings": len(grid), "chosen": choice.chosen.values}
        data.append({**about, "edges": list(choice.edges), "grid": grid})
        edges += [f"{prefix}{edge}" for edge in choice.edges]
    head = ["setting", "on validation, %", "loss", "seeds"]
    caption = (
        "How many validation strings are right: the mean over seeds, ± standard deviation, at the best validation of "
        "each run. The highest is chosen; of equal ones that with the lower loss. Test strings choose nothing, and are "
        "shown of the chosen setting only. " + " ".join(edges)
    ).strip()
    sentences = [f"{name or c.experiment.model.name}: {note_of(c)}." for c, name in zip(choices, called, strict=True)]
    finding = " ".join(sentences) if len(choices) <= FEW else ""
    return [Table(TITLE, caption, head, rows, data=data, finding=finding)]


def _names(choices: Sequence[Choice]) -> list[str]:
    """The model, the task or both, as far as they tell the choices apart; of the same, what else is set."""
    short = short_names(choice.experiment.model.name for choice in choices)
    models = [short[choice.experiment.model.name] for choice in choices]
    tasks = [task_name(choice.experiment.task) for choice in choices]
    parts = [names for names in (tasks, models) if len(set(names)) > 1]
    names = [" ".join(each) for each in zip(*parts, strict=True)] if parts else [""] * len(choices)
    # What is not swept may differ too: then the hash tells them apart.
    alike = len(set(names)) < len(choices)
    return [
        f"{name} {c.experiment.hash[:6]}".strip() if alike else name for name, c in zip(names, choices, strict=True)
    ]


def _cells(point: dict[str, Any], chosen: bool) -> list[str]:
    done, missing = len(point["runs"]), point["missing"]
    seeds = f"{done} of {done + missing}" if missing else str(done)
    if not done:
        return ["–", "–", seeds]
    spread = "" if point["std"] is None else f" ± {100 * point['std']:.1f}"
    return [f"{percent(point['validation'])}{spread}{', chosen' * chosen}", table_number(point["loss"]), seeds]


def _point(setting: Setting, planned: int) -> dict[str, Any]:
    right = setting.accuracies
    return {
        "values": setting.values,
        "validation": statistics.fmean(right) if right else None,
        "std": statistics.stdev(right) if len(right) > 1 else None,
        "loss": finite(setting.loss) if right else None,
        "seeds": {run.experiment.seed: value for run, value in zip(setting.runs, right, strict=True)},
        "missing": planned - len(setting.runs),
        "runs": [run.path.name for run in setting.runs],
    }
