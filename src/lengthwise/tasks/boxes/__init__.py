"""Entity tracking: stories of boxes and objects, their exact answers, and how deep they are.

`Boxes` is the task. `dependencies` and `layers_needed` are Theorem 1's.
"""

from .dependency_graph import Graph, dependencies, layers_needed
from .story import Story, read, solve
from .task import Boxes

__all__ = [
    "Boxes",
    "Graph",
    "Story",
    "dependencies",
    "layers_needed",
    "read",
    "solve",
]
