"""Ground truth: finite machines as integer tables, their algebra, and exact sampling of the words they accept."""

from .semiautomaton import Semiautomaton
from .walks import walk

__all__ = ["Semiautomaton", "walk"]
