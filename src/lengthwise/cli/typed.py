"""What is typed: numbers, read and refused as settings are, and names, completed by the shell.

A shell asks for completions at every press of a key, so nothing here imports torch.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from ..options import Option, Word, above, at_least, value_of
from .registries import REGISTRIES, names

SETTINGS = {
    "training": "train/settings.py",
    "tests": "lab/experiment.py",
    "model": "models/presets/*.py",
}
"""The files whose annotated fields and parameters are the settings of a part."""


def whole(flag: str, low: int | None = None) -> Callable[[Any], int]:
    """What reads the whole number after `flag`."""
    option = Option(flag, int, bounds=None if low is None else at_least(low))
    return lambda text: option.read(Word(text) if isinstance(text, str) else text, flag)


def seeds(text: Any) -> int | list[int]:
    """Returns the number of runs that was typed, or the seeds in a list.

    >>> seeds("3"), seeds("1,5"), seeds("[7]")
    (3, [1, 5], [7])
    """
    if isinstance(text, str) and isinstance(value_of(text), list):
        return Option("--seeds", list[int], bounds=at_least(0)).read(Word(text), "--seeds")
    return whole("--seeds", 1)(text)


def positive(flag: str) -> Callable[[Any], float]:
    """What reads the number above 0 after `flag`."""
    option = Option(flag, float, bounds=above(0))
    return lambda text: option.read(Word(text) if isinstance(text, str) else text, flag)


def one_of(flag: str, *words: str) -> Callable[[str], Any]:
    """What reads one of these words after `flag`."""
    option = Option(flag, Literal[words])
    return lambda text: option.read(text, flag)


def words(*each: str) -> Callable[[str], list[str]]:
    """What completes one of these words."""
    return lambda incomplete: _that_start(list(each), incomplete)


def setting(name: str) -> str | None:
    """The setting of this name in full, without importing it.

    >>> setting("steps"), setting("width"), setting("colour")
    ('training.steps', 'model.width', None)
    """
    for part, files in SETTINGS.items():
        for file in (Path(__file__).parent.parent).glob(files):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                known = node.arg if isinstance(node, ast.arg) else getattr(getattr(node, "target", None), "id", None)
                kind = getattr(node, "annotation", None)
                # Options are annotated, in place or by a name such as Width; plain arguments of functions are not.
                if known == name and (
                    isinstance(kind, ast.Subscript) or (isinstance(kind, ast.Name) and kind.id.istitle())
                ):
                    return f"{part}.{name}"
    return None


def tasks(incomplete: str) -> list[str]:
    return _that_start(names("tasks"), incomplete)


def models(incomplete: str) -> list[str]:
    return _that_start(names("models"), incomplete)


def papers(incomplete: str) -> list[str]:
    return _that_start([name.split()[0] for name in names("recipes")], incomplete)


def recipe_tables(ctx: Any, incomplete: str) -> list[str]:
    """The tables of the paper that was typed before."""
    paper = ctx.params.get("paper") or ctx.params.get("name")
    recipes = (name.split() for name in names("recipes"))
    return _that_start([table for of, table in recipes if of == paper], incomplete)


def whatever_is_listed(incomplete: str) -> list[str]:
    listed = [*REGISTRIES, "settings", "training", "tests"]
    listed += [name.split()[0] for table in REGISTRIES for name in names(table)]
    return _that_start(listed, incomplete)


def _that_start(known: list[str], incomplete: str) -> list[str]:
    return [word for word in dict.fromkeys(known) if word.startswith(incomplete)]
