"""The names and lines of the registries, read off their source: importing one imports torch, which takes seconds."""

from __future__ import annotations

import ast
import math
import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from .. import options as option_types
from ..errors import UnknownName
from ..options import REQUIRED, Option, Schema, option_of
from ..own_code import OTHER_MODELS

ROOMS = Path(__file__).parent.parent
REGISTRIES = {
    "tasks": ("tasks/registry.py", "FAMILIES"),
    "models": ("models/presets/__init__.py", "PRESETS"),
    "recipes": ("recipes/__init__.py", "TABLES"),
    "positions": ("positions/__init__.py", "POSITIONS"),
    "mixers": ("mixers/__init__.py", "MIXERS"),
}
"""The file and the dictionary that hold the names of a table."""

NOT_LISTED = {"tasks": r".*:.*|(d|tomita)-[0-9]{1,9}", "models": r".*:.*", "recipes": r".*\.py( .*)?|study( .*)?"}
"""The names that are looked up elsewhere: numbered tasks, patterns, classes, checkpoints, files."""


def names(table: str) -> list[str]:
    """Returns the names of a table, without importing it; a recipe's two words are one name.

    >>> names("models")[-3:], names("recipes")[0]
    (['rnn', 'lstm', 'gru'], 'demo parity')
    """
    return [*_entries(table), *(_numbered() if table == "tasks" else ())]


def lines(table: str) -> dict[str, str]:
    """Returns every name of a table with its line, without importing it.

    >>> lines("tasks")["parity"], lines("positions")["bilevel"]
    ('bits; the number of 1s, modulo 2', 'Two levels: BiPE.')
    """
    said = {}
    for name, value in _entries(table).items():
        if isinstance(value, ast.Tuple):  # of tasks: what builds it, and the line
            said[name] = ast.literal_eval(value.elts[1])
            continue
        value = value.args[0] if isinstance(value, ast.Call) else value  # partial(Recurrent, cell="rnn")
        node, file = _definition(ROOMS / REGISTRIES[table][0], ast.unparse(value).split("."))
        own, of_file = ast.get_docstring(node) or "", ast.get_docstring(_tree(file)) or ""
        if table in ("positions", "mixers"):
            # A docstring on options leaves the sentence to the file.
            said[name] = first_sentence(of_file if own.strip()[:1] in ("", "`") else own)
        else:
            said[name] = own.strip().splitlines()[0]
    return {**said, **(_numbered() if table == "tasks" else {})}


def check(table: str, name: str) -> None:
    """Raises what the registry would of an unknown name, before anything is imported."""
    known = [*names(table), *_added(table)]
    if name not in known and not re.fullmatch(NOT_LISTED[table], name, re.DOTALL):
        raise UnknownName(table[:-1], name, known, also=OTHER_MODELS if table == "models" else "")


def _added(table: str) -> list[str]:
    """The names that a program may have added, if it has imported the registry already."""
    file, dictionary = REGISTRIES[table]
    module = f"{ROOMS.name}.{file.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"
    live: dict[Any, Any] = getattr(sys.modules.get(module), dictionary, {})
    return [key if isinstance(key, str) else " ".join(key) for key in live]


def first_sentence(text: str) -> str:
    """Returns the first sentence; where it runs into a formula set apart, what stands before its colon.

    >>> first_sentence("Attention, over\\ntorch. No mask."), first_sentence("Relative: the logit is\\n\\n    q k")
    ('Attention, over torch.', 'Relative.')
    """
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    whole = re.match(r".*?[.?!](?=\s|$)", paragraph)
    return whole[0] if whole else paragraph.split(":")[0] + "." if paragraph else ""


def _entries(table: str) -> dict[str, ast.expr]:
    """The keys and values of a table's dictionary."""
    file, dictionary = REGISTRIES[table]
    value = _assigned(ROOMS / file, dictionary)
    assert isinstance(value, ast.Dict)
    words = [ast.literal_eval(key) for key in value.keys if key]
    return {each if isinstance(each, str) else " ".join(each): of for each, of in zip(words, value.values, strict=True)}


def depth_line(depth: int | str) -> str:
    """Returns the line of the task `d-{depth}`."""
    return _literal("tasks/registry.py", "DEPTH_LINE").format(depth)


def _numbered() -> dict[str, str]:
    """The listed tasks whose name holds a number."""
    machines = _literal("tasks/tomita.py", "MACHINES")
    tomitas = {f"tomita-{n}": f"bits; {what}" for n, (what, _, _) in machines.items()}
    return {f"d-{n}": depth_line(n) for n in _literal("tasks/registry.py", "DEPTHS")} | tomitas


def _literal(file: str, name: str) -> Any:
    return ast.literal_eval(_assigned(ROOMS / file, name))


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _assigned(file: Path, name: str) -> ast.expr:
    """The value that a file gives a name."""
    for node in _tree(file).body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if getattr(target, "id", "") == name:
                return node.value
    raise LookupError(f"{file}: gives no value to {name}.")


def _definition(file: Path, words: list[str]) -> tuple[Any, Path]:
    """The class or function that a file calls `words`, or the value that it gives that name, and its file."""
    first, *rest = words
    for node in _tree(file).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == first:
            return node, file
        if isinstance(node, ast.ImportFrom) and node.level:
            place = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for alias in node.names:
                if (alias.asname or alias.name) == first:
                    within = _module(place / alias.name)
                    return _definition(within, rest) if within.is_file() else _definition(_module(place), [alias.name])
    return _assigned(file, first), file


def _module(place: Path) -> Path:
    """The file of a module, or of a package."""
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


@cache
def options(table: str, name: str) -> Schema | None:
    """Returns the options of a name that is listed, or of the settings, without importing it; None of other names.

    >>> list(options("tasks", "d-2"))[:2], options("models", "hf:gpt2")
    (['positives', 'protocol'], None)
    """
    if table == "settings":
        if name == "training":
            return _fields(ROOMS / "train/settings.py", "Training")
        known = _fields(ROOMS / "lab/experiment.py", "LengthTests")
        return {key: option for key, option in known.items() if key not in ("lengths", "way")}
    registry = REGISTRIES[table][0]
    number = re.fullmatch(r"(d|tomita)-[0-9]{1,9}", name) if table == "tasks" else None
    value = _entries(table).get(name)
    if number:
        families = _assigned(ROOMS / registry, "NUMBERED")
        value = families.values[[ast.literal_eval(key) for key in families.keys].index(number[1])]
    elif table == "tasks" and name.startswith("regex:"):
        value = _entries(table)["regex"]
    if value is None:
        return None
    value = value.elts[0] if isinstance(value, ast.Tuple) else value
    value, partly = (value.args[0], value.keywords) if isinstance(value, ast.Call) else (value, [])
    known = _parameters(*_definition(ROOMS / registry, ast.unparse(value).split(".")), table in ("models", "recipes"))
    if number or name.startswith("regex:"):  # the name says it
        known.pop(next(iter(known)))
    filled_in = _literal(registry, "FILLED_IN") if table in ("positions", "mixers") else ()
    given = {*filled_in, *(keyword.arg for keyword in partly)}
    return {key: option for key, option in known.items() if key not in given}


def _parameters(node: Any, file: Path, keyword_only: bool) -> Schema:
    """The options of a function, or of a class by its own `__init__` or that of its base."""
    if isinstance(node, ast.ClassDef):
        own = next((each for each in node.body if getattr(each, "name", "") == "__init__"), None)
        if own is None:
            return _parameters(*_definition(file, ast.unparse(node.bases[0]).split(".")), keyword_only)
        node = own
    named = node.args
    first = [] if keyword_only else [each for each in named.args if each.arg != "self"]
    defaults = [None] * (len(first) - len(named.defaults)) + named.defaults if first else []
    every = zip([*first, *named.kwonlyargs], [*defaults, *named.kw_defaults], strict=True)
    return {each.arg: _option(file, each.arg, each.annotation, default) for each, default in every}


def _fields(file: Path, kind: str) -> dict[str, Option]:
    """The options of a dataclass, flat: the kind of a part goes by the part's own name."""
    known: dict[str, Option] = {}
    for field in _definition(file, [kind])[0].body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.annotation, ast.Name):
            part = _fields(file, field.annotation.id)
            for key, option in part.items():
                name = ast.unparse(field.target) if key == "kind" else key
                known[name] = replace(option, name=name)
        elif isinstance(field, ast.AnnAssign):
            name = ast.unparse(field.target)
            known[name] = _option(file, name, field.annotation, field.value)
    return known


def _option(file: Path, name: str, annotation: ast.expr | None, default: ast.expr | None) -> Option:
    within = _Names(file)
    kind = _value(annotation, within) if annotation else Any
    return option_of(name, kind, _value(default, within) if default else REQUIRED)


def _value(expression: ast.expr, within: _Names) -> Any:
    return eval(compile(ast.Expression(expression), str(within.file), "eval"), {}, within)


class _Names(dict[str, Any]):
    """What the names in a file of this package stand for, each read off the source when it is asked for."""

    def __init__(self, file: Path):
        super().__init__()
        self.file = file

    def __missing__(self, name: str) -> Any:
        for known in (option_types, math):  # Annotated, Literal, at_least, pi, …
            if hasattr(known, name):
                return getattr(known, name)
        if name == "PositionName":  # made of the registry when it is imported
            return Literal[tuple(names("positions"))]
        try:
            node, file = _definition(self.file, [name])
        except LookupError:
            raise KeyError(name) from None  # one of Python's own
        return type(name, (), {}) if isinstance(node, (ast.ClassDef, ast.FunctionDef)) else _value(node, _Names(file))
