"""The demo: who still knows PARITY at a hundred times the training length, and who at every length?"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from .. import tasks
from ..errors import Error
from ..lab import Experiment, Run, load_model, load_task, plan
from ..report import Panel
from ..report.verdicts import in_words
from ..verify import Unknown, claim_of
from ..verify.certification import decide
from ..verify.kept import Kept, keep, keep_picture, kept
from ..verify.subject import subject_of
from .base import Finished, Recipe, Scale
from .common.grid import Cell, Grid

STEADY = ["rnn", "lstm"]
"""Trained so that errors of their states fade (train/steady.py), and answers are asked for at every prefix."""
MODELS = ["transformer", "regular-gpt", "lstm"]
"""The slowest first, so that the others run beside it."""
CONSOLIDATED = ("regular-gpt", "lstm")
"""Where its own weights are not proved, a copy of these is taught the algebra of parity and then proved."""


def recipe(scale: Scale) -> Recipe:
    """RegularGPT, LSTMs, an RNN and a Transformer learn PARITY on lengths 1-40, tested to 4,000; smoke: to 500."""
    steps, samples, seeds, lengths, longest, seconds = {
        "smoke": (20, 8, 1, "41:81:20", 500, 1),
        "laptop": (1000, 16, 1, "1:500,1000,2000", 4000, 20),
        "paper": (10_000, 512, 3, "1:500,1000,2000", 4000, 60),
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

    def planned_steady() -> list[Experiment]:
        return plan(
            tasks.get("parity", supervision="prefix"),
            STEADY,
            seeds=seeds,
            train_length=40,
            test_lengths=f"{lengths},{longest}",
            settings={
                "training.steps": steps,
                "tests.samples": samples,
                "model.width": 32,
                "training.steady": "on",
                "training.varied": 0.5,
                "training.optimizer": "adamw",
                "training.lr": 3e-3,
                "training.batch": 64,
            },
        )

    return Recipe(
        title=f"PARITY: train on lengths 1–40, test to {longest:,}",
        description=(
            "The answer is the number of 1s modulo 2. A single misread bit flips it, and a guess is right half the "
            "time. Every model sees strings of length 1 to 40 in training. The question is what it does beyond. "
            "A model that is right on every string of a test may be wrong on the next: so each is also proved right at "
            "every length, or refuted by a string, or it is said that neither is known. Below stand an RNN and the "
            "LSTM once more, trained steady: so that errors of their states fade."
        ),
        grid=Grid([Cell("parity", planned), Cell("steady", planned_steady, label="parity, trained steady")]),
        report=partial(certified, seconds=seconds),
    )


def certified(finished: Finished, device: str, seconds: float) -> list[Panel]:
    """Each run proved or refuted, kept beside it for the page. What was decided before is not done again."""
    rows: list[tuple[str, Kept]] = []
    for run in [*finished["parity"], *finished["steady"]]:
        steady = ", steady" if run.experiment.training.steady.kind == "on" else ""
        name = f"{run.experiment.model.name} seed {run.experiment.seed}{steady}"
        rows.append((name, record := _certified(run, seconds)))
        keep_picture(run, load_model(run), claim_of(load_task(run)), seconds)
        if isinstance(record.verdict, Unknown) and run.experiment.model.name in CONSOLIDATED:
            rows.append((f"{name}, consolidated", _consolidated(run, seconds)))
    return [
        Panel(
            title="Right at every length?",
            caption=(
                f"`lengthwise certify` with {seconds:g} seconds a model: a proof that an independent checker accepts, "
                "or the shortest failing string it found. A proof of the model itself is of what it learned. A "
                "consolidated model is another one: a copy that was taught the algebra of parity after its training, "
                "and its line says how much of its own it kept."
            ),
            lead="\n".join(f"{name}: {''.join(in_words(record))}" for name, record in rows),
            data=[{"run": name, **_without_certificate(record)} for name, record in rows],
        )
    ]


def _certified(run: Run, seconds: float) -> Kept:
    before = kept(run)
    if before and not isinstance(before.verdict, Unknown):
        return before
    subject = subject_of("certify", run, None)
    claim = subject.claim.to_json()
    verdict = decide(subject, seconds).verdict
    keep(run, verdict, claim)
    return Kept(verdict, claim, "last")


def _consolidated(run: Run, seconds: float) -> Kept:
    subject = subject_of("certify", run, None)
    with tempfile.TemporaryDirectory() as folder:
        try:
            verdict = decide(subject, seconds, save=Path(folder) / "model").verdict
        except Error as refused:  # it has not learned parity, or cannot be taught it
            verdict = Unknown(str(refused).removesuffix("."))
    return Kept(verdict, subject.claim.to_json(), "last")


def _without_certificate(record: Kept) -> dict[str, object]:
    return {key: value for key, value in record.verdict.to_json().items() if key != "certificate"}
