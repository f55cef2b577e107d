"""Ground truth: finite machines as integer tables, their algebra, and exact sampling of the words they accept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .accepted_words import WordSampler
    from .algebra import (
        Monoid,
        compose,
        live_states,
        minimise,
        product,
        reachable,
        transition_monoid,
        word_map,
    )
    from .bi_nfa import BiNFA
    from .near_misses import NearMisses
    from .nfa import NFA
    from .regex import from_regex
    from .semiautomaton import Semiautomaton, difference
    from .state_elimination import to_regex

__all__ = [
    "NFA",
    "BiNFA",
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
    "to_regex",
    "transition_monoid",
    "word_map",
]

__getattr__, __dir__ = lazy_names(__name__)
