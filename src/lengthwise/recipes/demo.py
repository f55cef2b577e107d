"""The demo: who still knows PARITY at a hundred times the training length?"""

from __future__ import annotations

from ..lab import Experiment, plan
from .base import Recipe, Scale
from .common.grid import Cell, Grid

MODELS = ["transformer", "regular-gpt", "lstm"]
"""The slowest first, so that the others run beside it."""


def recipe(scale: Scale) -> Recipe:
    """RegularGPT, an LSTM and a Transformer learn PARITY on lengths 1-40 and are tested to 4,000; smoke: to 500."""
    steps, samples, seeds, lengths, longest = {
        "smoke": (20, 8, 1, "41:81:20", 500),
        "laptop": (1000, 16, 1, "1:500,1000,2000", 4000),
        "paper": (10_000, 512, 3, "1:500,1000,2000", 4000),
    }[scale]

    def planned() -> list[Experiment]:
        return plan(
            "parity",
            MODELS,
            seeds=seeds,
            train_length=40,
            test_lengths=f"{lengths},{longest}",
            # Two layers and four heads keep the Transformer, by far the slowest of the three, within two minutes.
            settings={
                "training.steps": steps,
                "tests.samples": samples,
                "transformer.layers": 2,
                "transformer.heads": 4,
            },
        )

    return Recipe(
        title=f"PARITY: train on lengths 1–40, test to {longest:,}",
        description=(
            "The answer is the number of 1s modulo 2. A single misread bit flips it, and a guess is right half the "
            "time. Every model sees strings of length 1 to 40 in training. The question is what it does on longer ones."
        ),
        grid=Grid([Cell("parity", planned)]),
    )
