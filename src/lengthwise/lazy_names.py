"""Public names of a room that load when first used, so that importing a room costs what is used of it.

    if TYPE_CHECKING:
        from .grid import plan

    __all__ = ["plan"]
    __getattr__, __dir__ = lazy_names(__name__)

The imports under TYPE_CHECKING are the table: type checkers follow them, and so does the room when it is asked.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any


def lazy_names(room: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the `__getattr__` and `__dir__` of a package whose imports stand under TYPE_CHECKING."""
    package = sys.modules[room]
    loader: Any = package.__spec__.loader if package.__spec__ else None
    table = _table(loader.get_source(room))

    def load(name: str) -> Any:
        if name not in table and (name.startswith("_") or find_spec(f"{room}.{name}") is None):
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        # A file of the room is an attribute of it too, as if it had been imported.
        module, attribute = table.get(name, (f".{name}", ""))
        value: Any = importlib.import_module(module, room)
        value = getattr(value, attribute) if attribute else value
        setattr(package, name, value)
        return value

    return load, lambda: sorted(package.__all__)


def _table(source: str) -> dict[str, tuple[str, str]]:
    """The module of each name and what it is called there; a module itself is called nothing."""
    tree = ast.parse(source)
    guarded = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [each for node in guarded for each in node.body if isinstance(each, ast.ImportFrom)]
    table = {}
    for each in imports:
        for alias in each.names:
            dots = "." * each.level
            place = (dots + each.module, alias.name) if each.module else (dots + alias.name, "")
            table[alias.asname or alias.name] = place
    return table
