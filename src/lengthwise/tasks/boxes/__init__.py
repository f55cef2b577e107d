"""Entity tracking: stories of boxes and objects, their exact answers, and how deep they are.

`Boxes` is the task. `dependency_depth` and `layers_needed` are Theorem 1's.
"""

from .story import Story, dependency_depth, layers_needed, read, solve
from .task import Boxes

__all__ = [
    "Boxes",
    "Story",
    "dependency_depth",
    "layers_needed",
    "read",
    "solve",
]
