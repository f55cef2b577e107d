"""The tasks a model is trained and tested on: one file per family, and a registry that finds them by name.

>>> from lengthwise import tasks
>>> tasks.get("modular-sum", modulus=3).outputs
3
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from . import own
    from .base import Batch, GeneratedAnswers, Task
    from .boxes import Boxes
    from .export_files import export
    from .laws import check
    from .registry import available, from_machine, from_regex, get, options, rebuild, source

__all__ = [
    "Batch",
    "Boxes",
    "GeneratedAnswers",
    "Task",
    "available",
    "check",
    "export",
    "from_machine",
    "from_regex",
    "get",
    "options",
    "own",
    "rebuild",
    "source",
]

__getattr__, __dir__ = lazy_names(__name__)
