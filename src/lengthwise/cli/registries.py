"""The names and lines of the registries, read off their source: importing one imports torch, which takes seconds."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import UnknownName
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
        own, of_file = _docstrings(ROOMS / REGISTRIES[table][0], ast.unparse(value).split("."))
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


def _docstrings(file: Path, words: list[str]) -> tuple[str, str]:
    """The docstring of what a file calls `words`, wherever that is defined, and the docstring of its file."""
    first, *rest = words
    for node in _tree(file).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == first:
            return ast.get_docstring(node) or "", ast.get_docstring(_tree(file)) or ""
        if isinstance(node, ast.ImportFrom) and node.level:
            place = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for alias in node.names:
                if (alias.asname or alias.name) == first:
                    within = _module(place / alias.name)
                    return _docstrings(within, rest) if within.is_file() else _docstrings(_module(place), [alias.name])
    raise LookupError(f"{file}: defines no {first}.")


def _module(place: Path) -> Path:
    """The file of a module, or of a package."""
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
