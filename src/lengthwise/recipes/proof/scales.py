"""What the proof tables train and how long they look, at every scale: rules (common/rules.py) and budgets."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..base import Scale
from ..common.grid import Model
from ..common.rules import Rule, Rules

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


class Asked(NamedTuple):
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


ASKED: dict[Scale, Asked] = {
    "smoke": Asked(80, 3, 8, {200: 4, 300: 4}, 200),
    "laptop": Asked(500, 12, 32, {100_000: 4, 1_000_000: 1}, 100_000),
    "paper": Asked(500, 40, 128, {100_000: 32, 1_000_000: 8}, 1_000_000),
}

LAPTOP = [
    Rule(
        "*",
        "*",
        {
            "seeds": 1,
            "supervision": "prefix",
            "model.width": 64,
            "training.lengths": (1, 40),
            "training.steps": 1000,
            "training.validation_samples": 256,
            "training.checkpoint_every": 500,
            "tests.samples": 32,
        },
    ),
    Rule("*", "RegularGPT", {"supervision": "last"}),
    Rule("*", "discrete", {"supervision": "last", "training.curriculum": "growing"}),
    Rule("*", "RNN", {"model.width": 32, "training.curriculum": "growing"}),
    # While lengths grow it remembers whole strings; of long ones from the first step on it learns where it is.
    Rule("cycle-navigation", "RNN", {"model.width": 128, "training.curriculum": "uniform"}),
    Rule("*", "GRU", {"model.width": 32}),
    Rule("*", "LSTM", {"model.width": 32}),
    *(Rule(row, "RNN", {"training.curriculum": "uniform"}) for row in ("s3-words", "tomita-5")),
    *(Rule(row, "RegularGPT", {"training.steps": 2000}) for row in ("s3-words", "d-2")),
]
PAPER = [
    *LAPTOP,
    Rule("*", "*", {"seeds": 3, "training.steps": 4000}),
    Rule("modular-arithmetic", "*", {"training.curriculum": "growing", "training.betas": (0.9, 0.98)}),
    Rule("modular-arithmetic", "RegularGPT", {"model.width": 128, "training.steps": 20_000}),
    Rule("modular-arithmetic", "discrete", {"model.width": 128, "training.steps": 40_000}),
    Rule("s5-words", "*", {"training.steps": 20_000}),
]
SMOKE = [
    *LAPTOP,
    Rule(
        "*",
        "*",
        {
            "model.width": 16,
            "training.steps": 4,
            "training.batch": 8,
            "training.validation_samples": 16,
            "tests.samples": 4,
        },
    ),
]
RULES: Rules = {"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER}
"""No published setting stands behind "paper": it is this table with more seeds, steps and tasks."""
