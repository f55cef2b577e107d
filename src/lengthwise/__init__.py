"""Lengthwise: sequence models that keep working past the length they were trained on."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .auto_classes import announce as _announce
from .errors import Error

__version__ = "0.1.0"

_ROOMS = (
    "ops",
    "automata",
    "positions",
    "mixers",
    "models",
    "convert",
    "tasks",
    "text",
    "train",
    "evaluate",
    "lab",
    "insight",
    "theory",
    "verify",
    "recipes",
    "report",
)

if TYPE_CHECKING:
    from . import (
        automata,
        convert,
        evaluate,
        insight,
        lab,
        mixers,
        models,
        ops,
        positions,
        recipes,
        report,
        tasks,
        text,
        theory,
        train,
        verify,
    )


def __getattr__(name: str):
    """Rooms load when first used, so that `import lengthwise` stays light."""
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_ROOMS, "Error", "__version__"])


_announce()

__all__ = [
    "Error",
    "__version__",
    "automata",
    "convert",
    "evaluate",
    "insight",
    "lab",
    "mixers",
    "models",
    "ops",
    "positions",
    "recipes",
    "report",
    "tasks",
    "text",
    "theory",
    "train",
    "verify",
]
