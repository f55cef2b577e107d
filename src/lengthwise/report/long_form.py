"""Runs for other programs: a row for each run and test length, as CSV or a pandas DataFrame, and all of it as JSON.

frame(runs).groupby(["model", "length"]).accuracy.agg(["mean", "std", "count"])

A run on text has one row, of its block length, with its perplexities. A column stands there where it applies to a run.
"""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import models, tasks
from ..errors import Error, import_extra
from ..files import write_text
from ..lab.experiment import Experiment, TaskSpec
from ..lab.records import Run
from ..lab.statistics import CHECKPOINTS, Range, overflowed, perplexities, summary, wilson
from ..lab.tested_lengths import lengths_of
from .chosen_settings import Swept
from .contents import Content
from .panel import Panel
from .provenance import provenance
from .sections import Section, SeedGroup, flat_settings, list_of_runs
from .verdicts import verdict_data

if TYPE_CHECKING:
    import pandas

ALWAYS = ("training.lr", "training.steps")
"""Settings that stand there even where they are the same in all runs."""


def write_csv(runs: Iterable[Run], path: str | Path) -> Path:
    """Write the rows to `path` and return it."""
    table = rows(runs)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return write_text(path, text.getvalue())


def frame(runs: Iterable[Run]) -> pandas.DataFrame:
    """The rows as a DataFrame; its columns are those of the CSV."""
    return import_extra("pandas", "pandas", "report.frame").DataFrame(rows(runs))


def rows(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """One row for each run and test length, all with the same columns, None where one does not apply.

    `task` or `text`, `model`, `seed`, then settings by the names that `--set` takes: the learning rate, the steps and
    all that differ between these runs. Counts and `accuracy` are of the last step, `best_…` of the best validation.
    """
    unique = list({run.experiment.hash: run for run in list_of_runs(runs)}.values())
    if not unique:
        raise Error("There is nothing to report: no finished run was given. Start one with `lengthwise bench`.")
    settings = _settings_shown([run.experiment for run in unique])
    made: list[dict[str, Any]] = []
    for run, own in zip(unique, settings, strict=True):
        e, result = run.experiment, run.result
        about = {"text" if e.on_text else "task": e.data.name, "model": e.model.name, "seed": e.seed}
        origin = {"parameters": result["parameters"], "train_seconds": result["seconds"]["train"], "hash": e.hash}
        numbers = _on_text(run) if e.on_text else _on_strings(run)
        made += [{**about, **own, **each, **origin, "run": run.path.name} for each in numbers]
    columns = _in_order(made)
    return [{name: row.get(name) for name in columns} for row in made]


def settings_in_full(experiment: Experiment) -> dict[str, Any]:
    """All settings by their dotted names; options that were left out stand at their defaults."""
    known: dict[str, Any] = {}
    if experiment.model.name in models.available():
        known |= {f"model.{name}": option.default for name, option in models.options(experiment.model.name).items()}
    if isinstance(experiment.data, TaskSpec) and experiment.data.name in tasks.available():
        known |= {f"task.{name}": option.default for name, option in tasks.options(experiment.data.name).items()}
    return known | flat_settings(experiment)


def _settings_shown(experiments: list[Experiment]) -> list[dict[str, Any]]:
    """Of each experiment the settings that always stand there, then those that somebody set and that differ."""
    names = dict.fromkeys(name for e in experiments for name in flat_settings(e) if name not in ALWAYS)
    full = [{name: as_word(value) for name, value in settings_in_full(e).items()} for e in experiments]
    differ = [name for name in names if len({repr(each.get(name, ...)) for each in full}) > 1]
    return [{name: each[name] for name in (*ALWAYS, *differ) if name in each} for each in full]


def as_word(value: Any) -> Any:
    """A setting as one cell, by which rows can be grouped: a list as `--set` takes it, parts as JSON.

    >>> as_word((1, 40)), as_word(0.001), as_word([{"name": "chain"}])
    ('1,40', 0.001, '[{"name": "chain"}]')
    """
    if isinstance(value, (list, tuple)) and not any(isinstance(each, (dict, list, tuple)) for each in value):
        return ",".join(map(str, value))
    return json.dumps(value, sort_keys=True) if isinstance(value, (dict, list, tuple)) else value


def _on_strings(run: Run) -> Iterator[dict[str, Any]]:
    e, result, samples = run.experiment, run.result, run.result["samples"]
    last, best = result["checkpoints"]["last"], result["checkpoints"]["best"]
    (low, high), which = e.training.curriculum.lengths, lengths_of(run) or None
    for length, correct in sorted(last["correct"].items(), key=lambda item: int(item[0])):
        wilson_low, wilson_high = wilson(correct, samples)
        n = int(length)
        yield {
            "train_low": low,
            "train_high": high,
            "length": n,
            "which_lengths": which,
            "samples": samples,
            "step": last["step"],
            "correct": correct,
            "overflowed": overflowed([run], [n]),
            "accuracy": correct / samples,
            "wilson_low": wilson_low,
            "wilson_high": wilson_high,
            "best_step": best["step"],
            "best_correct": best["correct"][length],
            "best_overflowed": overflowed([run], [n], "best"),
            "best_accuracy": best["correct"][length] / samples,
            "majority": result["baseline"][length],
        }


def _on_text(run: Run) -> Iterator[dict[str, Any]]:
    """`perplexity_before` is a checkpoint's; `best_validation` the least loss on the validation text, in nats."""
    checkpoints, last = run.result["checkpoints"], perplexities(run)
    before = perplexities(run, "before") if "before" in checkpoints else {}
    best = checkpoints.get("best")
    for length in run.experiment.tests.lengths:
        row = {"length": length, "step": checkpoints["last"]["step"]}
        row |= {"perplexity_before": before[length]} if before else {}
        row |= {"perplexity": last[length]}
        row |= {"best_step": best["step"], "best_validation": best["validation"]["loss"]} if best else {}
        row |= {key: value for key, value in run.result.get("answers", {}).items() if key in ("metric", "score")}
        yield row


def _in_order(made: list[dict[str, Any]]) -> list[str]:
    """The columns of all rows: what a run is, how it was set, what was measured, where it came from."""
    first, last = ("task", "text", "model", "seed"), ("parameters", "train_seconds", "hash", "run")
    names = dict.fromkeys(name for row in made for name in row)
    settings = [name for name in names if "." in name]
    middle = [name for name in names if name not in (*first, *settings, *last)]
    return [name for name in (*first, *settings, *middle, *last) if name in names]


def as_data(
    runs: Iterable[Run],
    panels: Sequence[Panel] = (),
    panels_of_text: bool = True,
    *,
    sweep: Swept = (),
    command: str = "",
) -> dict[str, Any]:
    """What the terminal's tables say, in numbers, for `--json`.

    `{"tasks": [{"task", "trained_on", "models": [{"label", "runs", "ranges": […]}, …]}, …], "panels": […], "rows":
    […], "provenance": {…}}`; the rows are those of the CSV. With panels, there may be no runs, and `command` is what
    measured them; without `panels_of_text` they say what runs
    on text are worth. Of the settings named in `sweep` only the chosen ones are among the runs; a panel has all.
    """
    report = Content.of(runs, panels, sweep=sweep, own_text_panels=panels_of_text, command=command)
    return {
        "tasks": [_section(section) for section in report.sections],
        "panels": [panel.to_json() for panel in report.panels],
        "rows": rows(report.runs) if report.runs else [],
        "provenance": provenance(report.runs, command),
    }


def _section(section: Section) -> dict[str, Any]:
    e = section.experiment
    return {
        "task": e.task.name,
        "params": e.task.params,
        "trained_on": list(section.train),
        "which_lengths": lengths_of(section.groups[0].first),
        "samples": e.tests.samples,
        "models": [_group(group, section) for group in section.groups],
    }


def _group(group: SeedGroup, section: Section) -> dict[str, Any]:
    return {
        "label": group.label,
        "note": group.note,
        "model": group.experiment.model.name,
        "options": group.experiment.model.options,
        "seeds": [run.experiment.seed for run in group.runs],
        "parameters": group.first.result["parameters"],
        "training": group.experiment.training.settings(),
        "train_seconds": statistics.fmean(run.result["seconds"]["train"] for run in group.runs),
        "ranges": [_range(group, r) for r in section.ranges],
        "runs": [
            {
                "path": str(run.path),
                **{key: run.result.get(key) for key in ("date", "command", "code", "machine", "seconds")},
                "verdict": verdict_data(run),
            }
            for run in group.runs
        ],
    }


def _range(group: SeedGroup, r: Range) -> dict[str, Any]:
    return {
        "from": r.lengths[0],
        "to": r.lengths[-1],
        "lengths": len(r.lengths),
        "trained": r.trained,
        "last": asdict(summary(group.runs, r.lengths)),
        "best": asdict(summary(group.runs, r.lengths, "best")),
        "overflowed": {name: overflowed(group.runs, r.lengths, name) for name in CHECKPOINTS},
    }
