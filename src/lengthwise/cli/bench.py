"""`lengthwise bench`: train models on short strings of a task and test them on long ones."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from ..errors import Error
from ..options import at_least
from . import console, registries
from .study import Config, SaveConfig, need, study_of, write_study
from .typed import Seeds, Settings
from .verb import Typed, verb
from .work import Running, carry_out, check_settings


@dataclass(frozen=True)
class GridOptions:
    task: Annotated[
        list[str] | None,
        "Tasks by name (see `lengthwise list`), regex:PATTERN, module:Class or FILE.py:Class.",
        Typed("TASK...", argument=True),
    ] = None
    more_tasks: Annotated[
        list[str] | None, "The same as TASK; repeat it.", Typed("TASK", flag="--task", short="-t")
    ] = None
    models: Annotated[
        list[str] | None,
        "Models by name, hf:PATH, module:Class or FILE.py:Class; repeat it for more.",
        Typed("NAME[,NAME…]", flag="--model", short="-m"),
    ] = None
    seeds: Seeds = 1
    train_length: Annotated[int, at_least(1), "The length of the longest training string."] = 40
    test_lengths: Annotated[
        str | None,
        "Lengths to test: single ones or FROM:TO:STEP, as in 41:500:20,1000.",
        Typed("LENGTHS", default="to 12.5 times the training length"),
    ] = None
    sweep: Annotated[
        list[str] | None,
        "Train with each value, in all combinations if repeated; validation strings choose, tests never.",
        Typed("NAME=VALUE,…"),
    ] = None
    settings: Settings = None
    compare: Annotated[
        str | None,
        "Pair runs by seed, with an interval of the difference: model, training.lr, model=lstm,gru, …",
        Typed("SETTING"),
    ] = None
    config: Config = None
    save_config: SaveConfig = None


@verb
def bench(context: typer.Context, *, grid: GridOptions, running: Running) -> None:
    """Train every model on short strings of each TASK and test it on long ones.

    To resume, give the same call again: finished runs are not repeated, and stopped ones continue.

    Exit codes: 0 fine, 1 a run failed, 2 wrong input, 130 stopped by Ctrl-C.

    Example: [bold]lengthwise bench parity -m lstm,regular-gpt --seeds 3 --set training.steps=500[/bold]

    Example: [bold]lengthwise bench parity -m regular-gpt --sweep training.lr=1e-4,3e-4 --sweep model.chunk=2,3[/bold]
    """
    study = study_of(context)
    study["task"] = study["task"] or []
    study["models"] = [name for word in study["models"] or () for name in _apart(word)]
    for word in study["task"]:
        # A task may be any word, so that a model without its -m would only be an unknown task.
        if word in registries.tables()["models"]:
            raise Error(f"lengthwise bench has no use for {word}. It is a model: add it as -m {word}.")
        registries.check("tasks", word)
    for word in study["models"]:
        registries.check("models", word)
    check_settings(study["task"], study["models"], study["settings"])
    from .. import lab, tasks
    from ..lab.sweeps import parse_sweep
    from ..lab.tested_lengths import lengths_note

    with console.stdout_kept(running.as_json):
        study["sweep"] |= parse_sweep(grid.sweep or [])
        need(
            "bench",
            study,
            task="a TASK, such as parity; lengthwise list tasks names them",
            models="a model, as in -m lstm; lengthwise list models names them",
        )
        plan = {name: study[name] for name in ("seeds", "train_length", "test_lengths", "settings", "sweep")}
        running.join()
        experiments = lab.plan(study["task"], study["models"], **plan)
        if study["sweep"]:
            runs = f"{len(experiments):,} runs, {len({e.seed for e in experiments})} of each setting"
            console.remark(f"sweep: {runs}. Validation strings choose.")
        for e in {json.dumps(asdict(e.task)): e for e in experiments}.values():
            made = tasks.rebuild(e.task.name, e.task.params, e.task.source)
            if note := lengths_note(made, e.training.curriculum.lengths[0], e.tests.lengths[-1]):
                console.remark(f"note: {note}")
        if study["compare"]:
            from ..report.paired_runs import FEWEST, check_comparison

            check_comparison(experiments, study["compare"])
            if len({e.seed for e in experiments}) < FEWEST:
                console.remark(f"note: an interval of the difference needs --seeds {FEWEST} at least.")
        if grid.save_config:
            write_study(grid.save_config, study)
    carry_out(experiments, running, sweep=list(study["sweep"]), compare=study["compare"])


def _apart(word: str) -> list[str]:
    """Returns the names in `lstm,mine.py:MyGRU`; hf:PATH or FILE.py:Class of what exists is one name."""
    place = word.removeprefix("hf:") if word.startswith("hf:") else word.rpartition(":")[0]
    return [word] if "," in place and os.path.exists(os.path.expanduser(place)) else word.split(",")
