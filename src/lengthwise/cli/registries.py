"""Every name that the verbs take, with its line and its options, from `names.jsonl`: a registry would import torch.

A test holds that file to the registries. After one has changed, `python tests/cli/listed_names.py` writes it anew.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import UnknownName
from ..files import read_text
from ..own_code import OTHER_MODELS

FILE = Path(__file__).with_name("names.jsonl")
SETTINGS = {
    "training": "How every model is trained: the steps, the lengths, the optimizer.",
    "tests": "How every model is tested: how many strings of a length, and which.",
}
NOT_LISTED = {"tasks": r".*:.*|(d|tomita)-\d{1,9}", "models": r".*:.*", "recipes": r".*\.py( .*)?|(study|proof)( .*)?"}
"""The names that are looked up elsewhere: numbered tasks, patterns, classes, checkpoints, files."""
ADDED = {
    "tasks": ("tasks.registry", "FAMILIES"),
    "models": ("models.presets", "PRESETS"),
    "recipes": ("recipes", "TABLES"),
}
"""Where a program may have added names of its own."""


@cache
def _tables() -> dict[str, dict[str, dict[str, Any]]]:
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for row in map(json.loads, read_text(FILE).splitlines()):
        tables.setdefault(row["table"], {})[row["name"]] = row
    return tables


def tables() -> dict[str, dict[str, str]]:
    """Returns every name with its line, by table; a recipe's two words are one name.

    >>> list(tables()), tables()["positions"]["bilevel"]
    (['tasks', 'models', 'recipes', 'positions', 'mixers', 'settings'], 'Two levels: BiPE.')
    """
    return {table: {name: row["line"] for name, row in rows.items()} for table, rows in _tables().items()}


def entries(name: str) -> list[dict[str, Any]]:
    """Returns all there is to say of a name, once for each table that has it.

    >>> [(entry["room"], entry["example"]) for entry in entries("parity")]
    [('task', 'lengthwise bench parity -m lstm --set task.supervision=last')]
    """
    rows = [table[name] for table in _tables().values() if name in table]
    return [{key: value for key, value in row.items() if key != "table"} for row in rows]


def options(table: str, name: str) -> list[dict[str, Any]] | None:
    """Returns the options of a name as `Option.to_json` has them; None of a name that is not listed.

    >>> [option["name"] for option in options("tasks", "d-7")][:2], options("models", "hf:gpt2")
    (['positives', 'protocol'], None)
    """
    known = _tables()[table]
    if table == "tasks" and name.startswith("regex:"):
        return [option for option in known["regex"]["options"] if option["name"] != "pattern"]
    if table == "tasks" and (number := re.fullmatch(r"(d|tomita)-[0-9]{1,9}", name)):
        name = {"d": "d-2", "tomita": "tomita-1"}[number[1]]
    return known[name]["options"] if name in known else None


def setting(name: str) -> str | None:
    """Returns the setting of this name in full.

    >>> setting("steps"), setting("width"), setting("colour")
    ('training.steps', 'model.width', None)
    """
    parts = [(part, options("settings", part)) for part in SETTINGS]
    parts += [("model", options("models", model)) for model in _tables()["models"]]
    whole = (f"{part}.{name}" for part, known in parts if name in [option["name"] for option in known or ()])
    return next(whole, None)


def check(table: str, name: str) -> None:
    """Raises what the registry would of an unknown name, before anything is imported."""
    module, dictionary = ADDED[table]
    live = getattr(sys.modules.get(f"lengthwise.{module}"), dictionary, ())
    known = dict.fromkeys([*_tables()[table], *(key if isinstance(key, str) else " ".join(key) for key in live)])
    if name not in known and not re.fullmatch(NOT_LISTED[table], name, re.DOTALL):
        raise UnknownName(table[:-1], name, known, also=OTHER_MODELS if table == "models" else "")
