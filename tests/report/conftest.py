"""Finished runs made up by arithmetic: what a report gets to read, without training anything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pytest

from lengthwise.lab.experiment import Experiment, LengthTests, ModelSpec, ObjectiveSpec, TaskSpec, TextSpec
from lengthwise.train.settings import Training

LENGTHS = (*range(1, 41), *range(41, 501, 20), 1000, 2000, 4000)


@dataclass(frozen=True)
class FakeRun:
    path: Path
    experiment: Experiment
    result: dict
    metrics: list


def make(
    model: str = "lstm",
    seed: int = 0,
    hold: float = 4000,
    task: TaskSpec = TaskSpec("parity"),  # noqa: B008 (frozen)
    options: dict | None = None,
    lengths: tuple[int, ...] = LENGTHS,
    samples: int = 512,
    steps: int = 1000,
    train: tuple[int, int] = (1, 40),
    lr: float = 1e-3,
) -> FakeRun:
    """A run that is right up to about `hold` tokens and guesses after that."""
    e = Experiment(
        task,
        ModelSpec(model, options or {}),
        Training.of(lengths=train, steps=steps, lr=lr),
        LengthTests(lengths, samples=samples),
        seed,
    )
    at = lambda n: 0.5 + 0.5 / (1 + (n / hold) ** 3)  # noqa: E731
    wobble = lambda n: 0.02 * math.sin(n * (seed + 1)) * (n / hold > 0 and at(n) < 0.999)  # noqa: E731
    correct = {str(n): round(samples * min(1, max(0, at(n) + wobble(n)))) for n in lengths}
    better = {n: min(samples, c + samples // 50) for n, c in correct.items()}
    metrics = []
    for step in range(10, steps + 1, 10):
        slowness = 150 + 40 * seed + 5 * len(model) ** 2
        loss = 0.69 * math.exp(-step / slowness) + 0.02 * abs(math.sin(step + seed)) + 1e-4
        metrics.append({"kind": "train", "step": step, "loss": loss, "length": 1 + step % 40})
        if step % 100 == 0:
            accuracy = 1 - 0.5 * math.exp(-step / (100 + 30 * seed + 3 * len(model) ** 2))
            metrics.append({"kind": "validation", "step": step, "accuracy": accuracy, "loss": loss})
    result = {
        "format": 1,
        "hash": e.hash,
        "steps": steps,
        "stopped": "steps",
        "parameters": 53_122,
        "seconds": {"train": 12.3 + seed, "evaluate": 4.5},
        "samples": samples,
        "checkpoints": {
            "last": {"step": steps, "correct": correct},
            "best": {"step": 800, "correct": better, "validation": {"accuracy": 1.0, "loss": 0.01}},
        },
        "baseline": {str(n): 0.5 + 0.1 / n for n in lengths},
        "machine": {
            "python": "3.11.7",
            "torch": "2.13.0",
            "transformers": "5.23.0",
            "lengthwise": "0.1.0",
            "platform": "Linux-x86_64",
            "cores": 2,
            "threads": 1,
            "device": "cpu",
        },
        "date": "2026-11-20T10:00:00+00:00",
        "command": "lengthwise bench parity --model lstm --model transformer",
        "files": {},
    }
    return FakeRun(Path("runs") / e.directory, e, result, metrics)


def make_on_text(conversions: list | None = None, seed: int = 0) -> FakeRun:
    """A run on text; its numbers are made up."""
    like = make(seed=seed)
    e = Experiment(
        TextSpec("text", {"train": "11aa", "test": "22bb"}, block=32, files=("a.txt",)),
        ModelSpec("pretrained", {"conversions": conversions} if conversions else {}, "digest", folder="/there"),
        Training.of(steps=300),
        LengthTests((32,)),
        seed,
        ObjectiveSpec("next-token"),
    )
    points = {"before": {"step": 0, "perplexity": 23.75}, "last": {"step": 300, "perplexity": 20.5 + seed}}
    result = {key: value for key, value in like.result.items() if key not in ("samples", "baseline")}
    metrics = [{"kind": "train", "step": 300, "loss": 3.0, "length": 32}]
    return FakeRun(Path("runs") / e.directory, e, {**result, "hash": e.hash, "checkpoints": points}, metrics)


@pytest.fixture(scope="session")
def make_text_run():
    return make_on_text


@pytest.fixture(scope="session")
def make_run():
    return make


@pytest.fixture(scope="session")
def runs() -> list[FakeRun]:
    """Three models of three seeds each on one task."""
    holds = {"regular-gpt": 30_000, "lstm": 900, "transformer": 45}
    return [make(model, seed, hold * (1 + seed / 4)) for model, hold in holds.items() for seed in range(3)]
