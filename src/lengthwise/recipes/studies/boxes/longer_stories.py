"""Boxes at lengths never trained on: at most 16 operations in training, up to 64 in the test.

The models have two or three standard layers, or a standard layer followed by chain attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from .... import tasks
from ....lab import Experiment, Run
from ....report import Panel
from ...base import Recipe, Scale
from ...common.grid import Cell, Grid
from ...papers.chacal.boxes import plan_stories
from ...papers.chacal.published import Attention
from . import accuracy

MODELS = (Attention("standard", 2), Attention("standard", 3), Attention("chain", 2))
TRAINED = 16
POSITIONS: dict[Scale, tuple[str, ...]] = {
    "smoke": ("none", "transformer-xl"),
    "laptop": ("transformer-xl",),
    "paper": ("none", "sinusoidal", "transformer-xl"),
}
"""Those that exist for any length: of a learned table the rows beyond the training length were never trained."""
LENGTHS: dict[Scale, tuple[int, ...]] = {
    "smoke": (1, 4, 20),
    "laptop": (1, 2, 4, 8, 16, 24, 32, 48, 64),
    "paper": (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64),
}
STRINGS: dict[Scale, int] = {"smoke": 4, "laptop": 64, "paper": 1024}
SIZES: dict[Scale, dict[str, int]] = {
    "smoke": {"boxes": 4, "objects": 10},
    "laptop": {"boxes": 4, "objects": 10},
    "paper": {"boxes": 8, "objects": 100},
}
SETTINGS: dict[Scale, dict[str, Any]] = {
    "paper": {
        "seeds": 4,
        "model.width": 512,
        "model.heads": 8,
        "training.steps": 25_000,
        "training.warmup": 2_000,
        "training.batch": 256,
        "training.lr": 3e-4,
        "training.schedule": "constant",
        "training.clip": None,
        "training.validate_every": 500,
        "training.validation_samples": 1024,
        "training.checkpoint_every": 1000,
        "tests.samples": 1024,
    },
    "laptop": {
        "seeds": 1,
        "model.width": 64,
        "model.heads": 4,
        "training.steps": 5000,
        "training.warmup": 100,
        "training.batch": 16,
        "training.lr": 2e-3,
        "training.schedule": "cosine",
        "training.clip": 1.0,
        "training.validate_every": 200,
        "training.validation_samples": 128,
        "training.checkpoint_every": 500,
        "tests.samples": 64,
    },
    "smoke": {
        "seeds": 1,
        "model.width": 16,
        "model.heads": 2,
        "training.steps": 3,
        "training.warmup": 1,
        "training.batch": 4,
        "training.validate_every": 3,
        "training.validation_samples": 4,
        "training.checkpoint_every": 3,
        "tests.samples": 4,
    },
}


Key = tuple[str, Attention]
"""The positions that the tokens have, and the model."""


def recipe(scale: Scale) -> Recipe:
    """ChaCAL and standard attention on Boxes, trained with up to 16 operations and tested with up to 64."""
    keys = [(position, attention) for position in POSITIONS[scale] for attention in MODELS]

    def report(finished: Mapping[Key, list[Run]], device: str) -> list[Panel]:
        panels: list[Panel] = []
        for position in dict.fromkeys(position for position, _ in finished):
            answers = {
                attention.label: accuracy.measured(runs, LENGTHS[scale], STRINGS[scale], device)
                for (other, attention), runs in finished.items()
                if other == position
            }
            panels += accuracy.panels(answers, f", {POSITION_NAMES[position]}")
        return panels

    return Recipe(
        title=f"ChaCAL, Boxes trained with up to {TRAINED} operations, tested with up to {LENGTHS[scale][-1]}",
        description=(
            "The paper tests on stories with as many operations as in training. A rule about moves holds for any "
            f"number of them: here training has at most {TRAINED} operations (log-uniform) and the test up to "
            f"{LENGTHS[scale][-1]}. The paper uses a learned table of positions, whose rows beyond the longest "
            "training story are never trained. The models here have positions that are defined for any length."
        ),
        grid=Grid([Cell(key, partial(planned, scale, *key), label=key[0]) for key in keys]),
        report=report,
    )


POSITION_NAMES = {
    "none": "no positions",
    "sinusoidal": "sinusoidal positions",
    "transformer-xl": "Transformer-XL positions",
}


def planned(scale: Scale, position: str, attention: Attention) -> list[Experiment]:
    task = tasks.get("boxes", form="advanced", **SIZES[scale])
    settings = {**SETTINGS[scale], "model.position": position}
    return plan_stories(attention, task, (1, TRAINED), LENGTHS[scale], settings)
