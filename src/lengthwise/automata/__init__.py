"""Ground truth: finite machines as integer tables, their algebra, and exact sampling of the words they accept."""

from .accepted_words import WordSampler
from .algebra import (
    Monoid,
    compose,
    difference,
    live_states,
    minimise,
    product,
    reachable,
    transition_monoid,
    word_map,
)
from .near_misses import NearMisses
from .regex import from_regex
from .semiautomaton import Semiautomaton

__all__ = [
    "Monoid",
    "NearMisses",
    "Semiautomaton",
    "WordSampler",
    "compose",
    "difference",
    "from_regex",
    "live_states",
    "minimise",
    "product",
    "reachable",
    "transition_monoid",
    "word_map",
]
