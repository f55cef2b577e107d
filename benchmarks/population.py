"""Population training against one member after the other: M members' steps together, and the same steps alone.

Each stacked member must end where it ends alone; then the ratio of the times means something.
"""

from __future__ import annotations

import time
from statistics import median

import torch
from rich.table import Table

from lengthwise import lab
from lengthwise.lab.job import make_trainer
from lengthwise.train import Stacked, Trainer

STEPS, REPEATS = 10, 3


def planned(model: str, count: int, width: int) -> list[lab.Experiment]:
    settings = {
        "training.steps": STEPS,
        "training.batch": 128,
        "training.validate_every": STEPS,
        "training.validation_samples": 16,
        "model.width": width,
    }
    return lab.plan("parity", [model], seeds=count, settings=settings)


def seconds(trainers: list[Trainer]) -> float:
    began = time.perf_counter()
    for trainer in trainers:
        trainer.run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began


def row(model: str, count: int, width: int, device: torch.device) -> tuple[str, ...]:
    ratios, gap = [], 0.0
    for _ in range(REPEATS):
        experiments = planned(model, count, width)
        together = make_trainer(experiments, device)
        alone = [make_trainer([experiment], device) for experiment in experiments]
        # What is alone is launched, too.
        together.strategy = Stacked(device)
        together.strategy.replayer = None
        stacked = seconds([together])
        ratios.append(seconds(alone) / stacked)
        for a, trainer in zip(together.states, alone, strict=True):
            b = trainer.states[0].weights()
            gap = max(gap, *(float((x - b[name]).abs().max()) for name, x in a.weights().items()))
    return model, str(count), str(width), f"{median(ratios):.2f}", f"{gap:.0e}"


def table() -> Table:
    """One row a model and size; a ratio above 1 means that stacking is faster."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(2)
    found = Table(title=f"Populations: one by one / stacked, {STEPS} steps on {device.type}")
    for column in ("model", "members", "width", "ratio", "largest gap of a weight (fp32)"):
        found.add_column(column)
    for model, count, width in [("regular-gpt", 4, 16), ("regular-gpt", 4, 64), ("transformer", 4, 16)]:
        found.add_row(*row(model, count, width, device))
    return found
