"""What `bench` and `train` share before a run is planned: a call's words, and those of the file of --config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from ..errors import Error
from ..options import Schema
from . import console
from .verb import is_typed
from .work import Running


def with_file(
    context: typer.Context, typed: dict[str, Any], running: Running, config: Path | None, keys: Schema
) -> tuple[dict[str, Any], Running]:
    """Returns what was typed, and the file's word on the rest: its `settings` and its `sweep` among them."""
    from ..lab.study import read_study

    filed = read_study(config, keys) if config else {}
    # Tasks come from an argument and an option.
    left = {
        name: value
        for name, value in filed.items()
        if not (is_typed(context, name) or (name == "task" and typed["task"]))
    }
    tables = {"settings": filed.get("settings", {}), "sweep": filed.get("sweep", {})}
    return {**typed, **running.to_toml(), **left, **tables}, running.of_file(left)


def need(verb: str, study: Mapping[str, Any], **remedies: str) -> None:
    """Raises for the first of these keys that neither the call nor its file says."""
    for name, remedy in remedies.items():
        if not study[name]:
            raise Error(f"{verb} needs {remedy}.")


def tell_unused(setting: str, models: list[str]) -> None:
    console.remark(f"note: {setting} is no option of {', '.join(models)}, and is used for the others alone.")
