"""Every name that the verbs take, with its line and its options, from `names.jsonl`: a registry would import torch.

A test holds that file to the registries, and `write` writes it:

    python -c "from lengthwise.cli import registries; registries.write()"
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import UnknownName
from ..files import read_text, write_text
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


def tables() -> list[str]:
    """Returns tasks, models, recipes, positions, mixers and settings."""
    return list(_tables())


def lines(table: str) -> dict[str, str]:
    """Returns every name of a table with its line; a recipe's two words are one name.

    >>> lines("tasks")["parity"], lines("positions")["bilevel"]
    ('bits; the number of 1s, modulo 2', 'Two levels: BiPE.')
    """
    return {name: row["line"] for name, row in _tables()[table].items()}


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
    parts += [("model", options("models", model)) for model in lines("models")]
    whole = (f"{part}.{name}" for part, known in parts if name in [option["name"] for option in known or ()])
    return next(whole, None)


def check(table: str, name: str) -> None:
    """Raises what the registry would of an unknown name, before anything is imported."""
    module, dictionary = ADDED[table]
    live = getattr(sys.modules.get(f"lengthwise.{module}"), dictionary, ())
    known = dict.fromkeys([*lines(table), *(key if isinstance(key, str) else " ".join(key) for key in live)])
    if name not in known and not re.fullmatch(NOT_LISTED[table], name, re.DOTALL):
        raise UnknownName(table[:-1], name, known, also=OTHER_MODELS if table == "models" else "")


def rows() -> Iterator[dict[str, Any]]:
    """Yields what the file holds, from the registries themselves."""
    from .. import lab, mixers, models, positions, recipes, tasks

    every: dict[str, tuple[dict[str, str], Any]] = {
        "tasks": (tasks.available(), tasks.options),
        "models": (models.available(), models.options),
        "recipes": (recipes.available(), lambda name: recipes.options(*name.split())),
        "positions": ({name: _about(kind) for name, kind in positions.POSITIONS.items()}, positions.options),
        "mixers": ({name: _about(kind) for name, kind in mixers.MIXERS.items()}, mixers.options),
        "settings": (SETTINGS, lab.settings_of_part),
    }
    for table, (names, of) in every.items():
        for name, line in names.items():
            known = [option.to_json() for option in of(name).values()]
            yield json.loads(json.dumps({"table": table, "name": name, "line": line, "options": known}))


def _about(kind: Any) -> str:
    """The first sentence on a class; where its docstring is on options, that of its file."""
    kind = getattr(kind, "func", kind)
    own = kind.__doc__ or ""
    text = (sys.modules[kind.__module__].__doc__ or "") if own.strip()[:1] in ("", "`") else own
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    whole = re.match(r".*?[.?!](?=\s|$)", paragraph)
    # A sentence may run into a formula that is set apart.
    return whole[0] if whole else paragraph.split(":")[0] + "."


def write() -> None:
    """Writes the file, after a registry has changed."""
    write_text(FILE, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows()))
