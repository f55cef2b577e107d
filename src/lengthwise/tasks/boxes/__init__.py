"""Entity tracking: stories of boxes and objects, their exact answers, and how deep they are.

`Boxes` is the task; `check` judges any text of these forms; `dependencies` and `layers_needed` are Theorem 1's.
"""

from .checking import check
from .graph import Graph, dependencies, layers_needed
from .judging import Judgement, per_box
from .reading import Story, read, solve
from .task import Boxes

__all__ = ["Boxes", "Graph", "Judgement", "Story", "check", "dependencies", "layers_needed", "per_box", "read", "solve"]
