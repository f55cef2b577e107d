"""The smallest bench there is, as it is typed."""

from __future__ import annotations

from lengthwise.cli import main

TINY = ["-s", "training.steps=12", "-s", "training.batch=8", "-s", "tests.samples=4", "-s", "model.width=8"]
TINY += ["-s", "training.validation_samples=8", "--test-lengths", "41:44,60", "--workers", "1", "--device", "cpu"]


def bench(root, *more):
    return main(["bench", "parity", "-m", "lstm", *TINY, "--out", str(root), *more])
