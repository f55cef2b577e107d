"""What Table 1 runs at every scale, in data. The knobs to turn are in `LAPTOP`.

A rule is (tasks, models, settings): patterns over the rows and columns it is for, and settings as `bench --set` takes
them, with three more: `seeds`, `learning_rates`, and `lengths`, about how many lengths are tested, or "every". Later
rules win. So a knob for one cell is one line: `Rule("modular-*", "regular-gpt C=2", {"training.steps": 20_000})`.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from ..base import Scale


class Rule(NamedTuple):
    tasks: str
    models: str
    settings: dict[str, Any]

    def holds(self, task: str, model: str) -> bool:
        return fnmatchcase(task, self.tasks) and fnmatchcase(model, self.models)


PAPER = [
    Rule(
        "*",
        "*",
        {
            "seeds": 3,
            "learning_rates": [1e-4, 3e-4, 5e-4],
            "lengths": "every",
            "task.supervision": "last",
            "model.width": 256,
            "training.steps": 100_000,
            "training.batch": 128,
            "training.curriculum": "uniform",
            "training.schedule": "constant",
            "training.betas": (0.9, 0.999),
            "training.clip": None,
            "training.validate_every": 1000,
            "training.validation_samples": 512,
            "training.checkpoint_every": 2000,
            "evaluation.samples": 512,
        },
    ),
    # The baselines' depth is not stated; five layers have the 4.3M parameters that are.
    Rule("*", "transformer-xl", {"model.layers": 5, "model.heads": 8}),
    Rule("*", "regular-gpt*", {"model.variant": "official", "model.heads": 8}),
]

LAPTOP = [
    Rule(
        "*",
        "*",
        {
            "seeds": 3,
            "learning_rates": [1e-3],
            "lengths": 16,
            "model.width": 64,
            "training.steps": 1500,
            "training.schedule": "cosine",
            "training.clip": 1.0,
            "training.validate_every": 100,
            "training.checkpoint_every": 500,
            "evaluation.samples": 64,
        },
    ),
    Rule("*", "transformer-xl", {"model.layers": 2, "training.steps": 1000, "seeds": 2}),
    Rule("*", "regular-gpt*", {"model.variant": "lengthwise"}),
    # At 1,500 steps of uniform lengths one RNN of three knew PARITY, and none Cycle Navigation.
    *[
        Rule(task, "rnn", {"training.steps": 4000, "training.curriculum": "growing"})
        for task in ("even-pairs", "parity", "cycle-navigation")
    ],
    Rule(
        "modular-arithmetic",
        "*",
        {"seeds": 2, "training.curriculum": "growing", "training.betas": (0.9, 0.98)},
    ),
    Rule("modular-arithmetic", "rnn", {"training.steps": 4000}),
    Rule("modular-arithmetic", "regular-gpt*", {"model.width": 128, "training.steps": 3000}),
    Rule("modular-arithmetic", "regular-gpt C=2", {"training.steps": 6000}),
]

SMOKE = [
    *LAPTOP,
    Rule(
        "*",
        "*",
        {
            "seeds": 1,
            "lengths": 2,
            "model.width": 16,
            "training.steps": 3,
            "training.batch": 8,
            "training.validation_samples": 16,
            "evaluation.samples": 4,
        },
    ),
]

RULES: dict[Scale, list[Rule]] = {"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER}


def settings(rules: list[Rule], task: str, model: str) -> dict[str, Any]:
    """What these rules say about one cell.

    >>> settings(PAPER, "parity", "transformer-xl")["model.layers"]
    5
    """
    found: dict[str, Any] = {}
    for rule in rules:
        if rule.holds(task, model):
            found |= rule.settings
    return found
