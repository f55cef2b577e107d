"""Entity tracking: stories of boxes and objects, their exact answers, and how deep they are.

`Boxes` is the task. `check` says which rule a text breaks. `dependencies` and `layers_needed` are Theorem 1's.
"""

from .answer_scores import StoryScores, contents_by_box
from .dependency_graph import Graph, dependencies, layers_needed
from .rules import check
from .story import Story, read, solve
from .task import Boxes

__all__ = [
    "Boxes",
    "Graph",
    "Story",
    "StoryScores",
    "check",
    "contents_by_box",
    "dependencies",
    "layers_needed",
    "read",
    "solve",
]
