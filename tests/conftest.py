"""One torch thread, and a quick experiment to be varied by keywords.

Small tensors gain nothing from more threads, and on a busy machine threads wait for one another.
"""

from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)

TOYS = Path(__file__).parent / "lab" / "toys.py"


@pytest.fixture
def toy():
    return lambda name: f"{TOYS}:{name}"


@pytest.fixture
def quick():
    """`quick(model, **settings)`: experiments of a few dozen steps, `training.` settings by keyword."""

    from lengthwise.lab import plan

    def make(
        model="lstm", *, task="parity", seeds=1, test_lengths="8,16", train_length=8, model_settings=None, **training
    ):
        settings = {
            "training.steps": 30,
            "training.batch": 16,
            "training.validate_every": 10,
            "training.validation_samples": 32,
            "training.checkpoint_every": 10,
            "evaluation.samples": 16,
            **{f"training.{name}": value for name, value in training.items()},
            **{f"model.{name}": value for name, value in (model_settings or {}).items()},
        }
        return plan(task, [model], seeds=seeds, train_length=train_length, test_lengths=test_lengths, settings=settings)

    return make
