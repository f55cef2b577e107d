"""The tasks a model is trained and tested on: one file per family, and a registry that finds them by name.

>>> from lengthwise import tasks
>>> tasks.get("modular-sum", modulus=3).outputs
3
"""

from .base import Batch, Task
from .export import export
from .registry import available, from_machine, from_regex, get, options

__all__ = ["Batch", "Task", "available", "export", "from_machine", "from_regex", "get", "options"]
