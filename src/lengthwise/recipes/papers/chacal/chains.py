"""Chains of references, the paper's toy task, at every scale: one length, all models trained alike.

`blocks` of 8 tokens; the longest chain has blocks - 1 references.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .... import tasks
from ....lab import Experiment, plan
from ...base import Scale
from .published import Attention

SIZE = 8
PAPER_BLOCKS = 16

SETTINGS: dict[Scale, dict[str, Any]] = {
    "paper": {
        "seeds": 4,
        "model.width": 512,
        "training.steps": 24_000,
        "training.warmup": 8_000,
        "training.batch": 128,
        "training.lr": 3e-4,
        "training.schedule": "constant",
        "training.clip": None,
        "training.validate_every": 400,
        "training.validation_samples": 1024,
        "training.checkpoint_every": 2000,
        "tests.samples": 4096,
    },
    "laptop": {
        "seeds": 2,
        "model.width": 128,
        "training.steps": 1500,
        "training.warmup": 100,
        "training.batch": 32,
        "training.lr": 1e-3,
        "training.schedule": "cosine",
        "training.clip": 1.0,
        "training.validate_every": 50,
        "training.validation_samples": 128,
        "training.checkpoint_every": 500,
        "tests.samples": 256,
    },
    "smoke": {
        "seeds": 1,
        "model.width": 16,
        "training.steps": 4,
        "training.warmup": 1,
        "training.batch": 4,
        "training.lr": 3e-3,
        "training.schedule": "cosine",
        "training.clip": 1.0,
        "training.validate_every": 2,
        "training.validation_samples": 8,
        "training.checkpoint_every": 4,
        "tests.samples": 8,
    },
}


def plan_chains(
    scale: Scale, attention: Attention, blocks: int, changed: Mapping[str, Any] | None = None
) -> list[Experiment]:
    """The runs of one model on this many blocks; `changed`: settings in place of the scale's own."""
    settings = {**SETTINGS[scale], **(changed or {})}
    seeds, length = settings.pop("seeds"), blocks * SIZE
    return plan(
        tasks.get("reference-chains", blocks=blocks, size=SIZE),
        [attention.preset],
        seeds=seeds,
        test_lengths=[length],
        settings={
            "training.lengths": (length, length),
            "training.betas": (0.9, 0.98),
            "model.heads": 8,
            "model.max_length": length,
            **attention.settings("all"),
            **settings,
        },
    )
