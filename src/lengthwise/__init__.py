"""Lengthwise: sequence models that keep working past the length they were trained on."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from . import notebooks
from .auto_classes import announce as _announce
from .errors import Error
from .lazy_names import lazy_names

__version__ = "0.1.0"

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


__getattr__, __dir__ = lazy_names(__name__)
notebooks.report_room = lambda: importlib.import_module(".report", __name__)
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
