"""What the proof tables train and how long they look, at every scale: rules (table.toml) and budgets."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..base import Scale
from ..common.grid import Model
from ..common.rules import rules_of

MODELS: dict[str, Model] = {
    "RegularGPT": Model("regular-gpt", {}),
    "discrete": Model("regular-gpt", {"model.nodes": "discrete"}),
    "automaton": Model("block-lrnn", {"model.variant": "automaton"}),
    "RNN": Model("rnn", {}),
    "GRU": Model("gru", {}),
    "LSTM": Model("lstm", {}),
}
"""discrete: RegularGPT of discrete nodes; automaton: the block-diagonal linear RNN of functions on states."""

GIVEN: dict[str, tuple[str, dict[str, Any]]] = {
    "s3-words": ("word-problem", {"group": "S3", "generators": [[1, 0, 2], [1, 2, 0]]}),
    "s5-words": ("word-problem", {"group": "S5", "generators": [[1, 0, 2, 3, 4], [1, 2, 3, 4, 0]]}),
    "modular-arithmetic": ("modular-arithmetic", {"leading_plus": True}),
}
"""Rows that are a task with settings: words of a group are of two generators, a swap and a cycle."""
LAPTOP_TASKS = ("parity", "even-pairs", "cycle-navigation", "s3-words", "tomita-5", "tomita-6", "d-2")
TASKS: dict[Scale, tuple[str, ...]] = {
    "smoke": ("parity",),
    "laptop": LAPTOP_TASKS,
    "paper": (*LAPTOP_TASKS, "modular-arithmetic", "s5-words"),
}


class Budget(NamedTuple):
    """Seconds that one network is given."""

    certify: float
    consolidate: float = 0.0
    compile: float = 0.0


BUDGETS: dict[Scale, Budget] = {
    "smoke": Budget(1.0, 1.0, 2.0),
    "laptop": Budget(12.0, 30.0, 60.0),
    "paper": Budget(300.0, 900.0, 3600.0),
}


class StringCounts(NamedTuple):
    """The strings of every network."""

    near: int
    """The longest of the lengths tested one by one: 500."""
    lengths: int
    """About how many lengths up to it."""
    samples: int
    """Strings of each."""
    far: dict[int, int]
    """How many strings at which much greater length."""
    stepwise: int
    """The greatest of those lengths for RNN and GRU, which take a step of their own for every token."""


ASKED: dict[Scale, StringCounts] = {
    "smoke": StringCounts(80, 3, 8, {200: 4, 300: 4}, 200),
    "laptop": StringCounts(500, 12, 32, {100_000: 4, 1_000_000: 1}, 100_000),
    "paper": StringCounts(500, 40, 128, {100_000: 32, 1_000_000: 8}, 1_000_000),
}

RULES = rules_of("lengthwise.recipes.proof.table")
