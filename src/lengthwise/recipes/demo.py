"""The demo: who still knows PARITY at a hundred times the training length, and who at every length?"""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import tasks
from ..lab import Experiment, load_model, load_task, plan
from ..report import Panel
from ..verify import Unknown, claim_of
from ..verify.certification import decide
from ..verify.subject import subject_of
from ..verify.verdict_files import extract_for_page, keep, recorded_verdict
from .base import Finished, Recipe, Scale
from .common.grid import Cell, Grid
from .proof.steady import SETTINGS, SETTLED, WAYS

MODELS = ["transformer", "lstm"]
"""The slowest first, so that the others run beside it."""
STEADY: dict[str, Any] = {
    "training.steady": "on",
    "training.varied": 0.5,
    "training.optimizer": "adamw",
    "training.lr": 3e-3,
    "training.batch": 64,
    "model.width": 32,
}
"""So that errors of what a model remembers fade (train/steady.py)."""
OWN: dict[str, Any] = {"training.spans": False, "training.optimizer": STEADY["training.optimizer"]}
"""Parity needs no questions about spans."""
TREE: dict[str, Any] = {**STEADY, "model.nodes": "discrete", **SETTINGS["discrete"], **WAYS[SETTLED], **OWN}
"""Nodes that are words of 8 choices among 4: of these a proof is a list."""


def recipe(scale: Scale) -> Recipe:
    """RegularGPT, LSTMs, an RNN and a Transformer learn PARITY on lengths 1-40, tested to 4,000; smoke: to 500."""
    steps, samples, seeds, lengths, longest, seconds = {
        "smoke": (20, 8, 1, "41:81:20", 500, 1),
        "laptop": (1000, 16, 1, "1:40,45:500:5,1000,2000", 4000, 20),
        "paper": (10_000, 512, 3, "1:500,1000,2000", 4000, 60),
    }[scale]

    def planned(task: tasks.Task, models: list[str], settings: dict[str, Any]) -> list[Experiment]:
        return plan(
            task,
            models,
            seeds=seeds,
            train_length=40,
            test_lengths=f"{lengths},{longest}",
            settings={"training.steps": steps, "tests.samples": samples, **settings},
        )

    def usual() -> list[Experiment]:
        # Two layers and four heads keep the Transformer, by far the slowest, within a minute.
        return planned(tasks.get("parity"), MODELS, {"transformer.layers": 2, "transformer.heads": 4})

    def steady() -> list[Experiment]:
        prefixes = tasks.get("parity", supervision="prefix")
        tree = planned(prefixes, ["regular-gpt"], {**TREE, "training.steps": steps * 6 // 5})
        return [*tree, *planned(prefixes, ["rnn", "lstm"], STEADY)]

    return Recipe(
        title=f"PARITY: train on lengths 1–40, test to {longest:,}",
        description=(
            "The answer is the number of 1s modulo 2. A single misread bit flips it, and a guess is right half the "
            "time. Every model sees strings of length 1 to 40 in training. The question is what it does beyond. "
            "A model that is right on every string of a test may be wrong on the next: so each is also proved right at "
            "every length, or refuted by a string, or it is said that neither is known. Below, RegularGPT, an RNN and "
            "the LSTM once more are asked after every symbol and trained steady: so that errors of what they remember "
            "fade."
        ),
        grid=Grid([Cell("usual", usual), Cell("steady", steady)]),
        report=partial(certified, seconds=seconds),
    )


def certified(finished: Finished, device: str, seconds: float) -> list[Panel]:
    """Proves or refutes each run and keeps that beside it, where its page finds it. Nothing is decided twice."""
    for run in [*finished["usual"], *finished["steady"]]:
        before = recorded_verdict(run)
        if before is None or isinstance(before.verdict, Unknown):
            subject = subject_of("certify", run, None)
            claim = subject.claim.to_json()
            keep(run, decide(subject, seconds).verdict, claim)
        extract_for_page(run, load_model(run), claim_of(load_task(run)), seconds)
    return []
