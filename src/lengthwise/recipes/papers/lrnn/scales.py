"""What Table 2 runs at every scale, as rules (common/rules.py). The knobs to turn are in `LAPTOP`."""

from __future__ import annotations

from ...common.rules import Rule, Rules

PAPER = [
    Rule(
        "*",
        "*",
        {
            "seeds": 3,
            "supervision": "prefix",
            "model.width": 64,
            "model.layers": 1,
            "training.lengths": (40, 40),
            "training.curriculum": "uniform",
            "training.steps": 40_000,
            "training.batch": 128,
            "training.lr": 1e-4,
            "training.betas": (0.9, 0.999),
            "training.weight_decay": 0.0,
            "training.schedule": "constant",
            "training.clip": None,
            "training.validate_every": 1000,
            "training.validation_samples": 512,
            "training.checkpoint_every": 2000,
            "tests.samples": 512,
        },
    ),
    Rule("even-pairs", "*", {"training.lr": 2e-4}),
    Rule(
        "modular-arithmetic",
        "*",
        {"model.layers": 3, "training.lengths": (39, 39), "training.lr": 2e-4, "training.weight_decay": 1e-4},
    ),
    Rule("*", "block-lrnn*", {"model.blocks": 8, "model.block": 8, "model.p": 1.2}),
    Rule("*", "block-lrnn", {"model.variant": "official"}),
]

LAPTOP = [
    *PAPER,
    Rule(
        "*",
        "*",
        {
            "training.steps": 1000,
            "training.lr": 1e-3,
            "training.schedule": "cosine",
            "training.clip": 1.0,
            "training.validate_every": 100,
            "training.validation_samples": 256,
            "training.checkpoint_every": 250,
            "tests.samples": 256,
        },
    ),
    Rule("even-pairs", "*", {"training.steps": 1500}),
    # One layer of theirs learns none of the tasks at 40: they are given layers and time, so that what they do at 500
    # says something. Most of their channels begin faster. Sums are learned from growing strings, expressions are not.
    Rule(
        "*",
        "*s4*",
        {
            "model.layers": 3,
            "model.state": 16,
            "model.step_max": 1.0,
            "training.steps": 4500,
            "training.batch": 64,
            "training.lr": 1e-2,
        },
    ),
    Rule(
        "modular-sum",
        "*s4*",
        {
            "training.lengths": (1, 40),
            "training.curriculum": "growing",
            "training.grow_from": 2,
            "training.grow_at": 0.8,
        },
    ),
    Rule("modular-*", "s4d", {"model.initial": "legs"}),
    Rule("modular-sum", "s4d", {"training.steps": 7000}),
    Rule("modular-sum", "liquid-s4", {"training.steps": 6000}),
    Rule("even-pairs", "*s4*", {"model.layers": 2, "training.steps": 400, "training.lr": 5e-3}),
    # Whole expressions teach nothing at first; one after another the shorter ones do.
    Rule(
        "modular-arithmetic",
        "*",
        {
            "training.weight_decay": 0.0,
            "training.steps": 1000,
            "training.batch": 64,
            "training.lengths": (1, 39),
            "training.curriculum": "growing",
            "training.grow_from": 5,
            "training.grow_at": 0.97,
        },
    ),
    Rule(
        "modular-arithmetic",
        "*s4*",
        {"training.steps": 7000, "training.lengths": (39, 39), "training.curriculum": "uniform"},
    ),
    # A stack of functions learns slowly and is lost easily: docs/log.md has what each of these is for. The paper's
    # model is given the same, so that both have one budget.
    Rule(
        "modular-arithmetic",
        "block-lrnn*",
        {
            "training.lr": 2e-3,
            "training.steps": 4500,
            "training.clip": 0.1,
            "training.betas": (0.9, 0.95),
            "training.eps": 1e-5,
            "training.grow_from": 3,
            "training.grow_at": 0.95,
            "training.shrink_at": 0.6,
        },
    ),
]

SMOKE = [
    *LAPTOP,
    Rule(
        "*",
        "*",
        {
            "seeds": 1,
            "model.width": 8,
            "training.steps": 4,
            "training.batch": 8,
            "training.validate_every": 2,
            "training.validation_samples": 16,
            "training.checkpoint_every": 4,
            "tests.samples": 8,
        },
    ),
    Rule("*", "block-lrnn*", {"model.blocks": 2, "model.block": 4}),
    Rule("*", "*s4*", {"model.state": 4}),
]

RULES: Rules = {"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER}
