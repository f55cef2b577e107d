"""What Table 1 runs at every scale, as rules (common/rules.py). The knobs to turn are in `LAPTOP`."""

from __future__ import annotations

from ...common.rules import Rule, Rules

PAPER = [
    Rule(
        "*",
        "*",
        {
            "seeds": 3,
            "learning_rates": [1e-4, 3e-4, 5e-4],
            "lengths": "every",
            "supervision": "last",
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
            "tests.samples": 512,
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
            "supervision": "last",
            "model.width": 64,
            "training.steps": 1500,
            "training.schedule": "cosine",
            "training.clip": 1.0,
            "training.validate_every": 100,
            "training.checkpoint_every": 500,
            "tests.samples": 64,
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
            "tests.samples": 4,
        },
    ),
]

RULES: Rules = {"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER}
