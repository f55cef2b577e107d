"""Ground truth: finite machines as integer tables, their algebra, and exact sampling of the words they accept."""

from .algebra import (
    Monoid,
    compose,
    difference,
    live,
    minimise,
    product,
    reachable,
    transition_monoid,
    word_map,
)
from .counting import Sampler
from .edits import NearMisses
from .regex import from_regex
from .semiautomaton import Semiautomaton
from .walks import walk

__all__ = [
    "Monoid",
    "NearMisses",
    "Sampler",
    "Semiautomaton",
    "compose",
    "difference",
    "from_regex",
    "live",
    "minimise",
    "product",
    "reachable",
    "transition_monoid",
    "walk",
    "word_map",
]
