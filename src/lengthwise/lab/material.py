"""What the data of an experiment decides: what is trained on, where a model begins, and how its weights are tested."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from .. import tasks
from ..errors import Error
from ..evaluate import StringScores, score_strings
from ..files import Tensors
from ..models import TokenClassifier
from ..train import Data, Directory, Objective, Progress, Stop, StringObjective, TaskStrings, TrainState
from ..train.state import load_weights
from .experiment import Experiment
from .new_models import build_classifier
from .tested_lengths import which_lengths

SAVE_SCORES_EVERY = 20.0
"""Seconds between two checkpoints while a model is tested."""


class Scoring:
    """The test of one trained model: says how far it is, and keeps its scores so that a kill loses none."""

    def __init__(
        self, state: TrainState, hear: Callable[[Progress], None], keep: Callable[[Tensors], None], stop: Stop
    ):
        self.state, self.hear, self.keep, self.stop = state, hear, keep, stop
        self.last = {name: tensor.clone() for name, tensor in state.weights().items()}
        """The weights at the end of training: whichever are being tested, a checkpoint is of these."""
        self.began, self.kept_at = time.perf_counter() - state.test_seconds, time.perf_counter()

    def after(self, phase: str, name: str, scores: Any, done: int, total: int) -> None:
        """Called after each part of a test, with all scores of that `name` so far."""
        self.hear(Progress(self.state.name, done, total, phase=phase))
        self.state.scores[name] = scores
        self.state.test_seconds = time.perf_counter() - self.began
        if self.stop.asked or time.perf_counter() - self.kept_at > SAVE_SCORES_EVERY:
            self.keep(self.last)
            self.kept_at = time.perf_counter()
        self.stop.check()


class Material:
    """Made once for experiments that differ in seed and learning rate alone."""

    kind: str
    """The objective that such data is trained with, as experiments name it."""
    data: Data
    objective: Objective

    def __init__(self, experiment: Experiment, device: torch.device, share: int = 1):
        if experiment.objective.kind != self.kind:
            raise Error(f"{experiment.data.name} is for the objective {self.kind}, got {experiment.objective.kind}.")
        self.spec: Any = experiment.data
        self.device, self.share = device, share
        """On which it is trained, and how many processes share the machine's memory."""

    def model(self, experiment: Experiment, directory: Directory | None) -> TokenClassifier:
        """The model before the first step."""
        raise NotImplementedError

    def state(self, experiment: Experiment, directory: Directory | None = None) -> TrainState:
        model = self.model(experiment, directory)
        return TrainState(
            model,
            experiment.training,
            self.data.lengths,
            seed=experiment.seed,
            name=experiment.hash,
            core=model.inner,
            device=self.device,
            directory=directory,
        )

    def test_before(self, experiment: Experiment, state: TrainState, stop: Stop) -> None:
        """Tests the model before its first step, where it was trained before: random weights are worth a guess."""

    def test_after(self, experiment: Experiment, scoring: Scoring) -> tuple[dict[str, Tensors], dict[str, Any]]:
        """Tests the trained model: the weights to record by the names of their files, and what the result says."""
        raise NotImplementedError


class StringMaterial(Material):
    """Strings of a task."""

    kind = "strings"

    def __init__(self, experiment: Experiment, device: torch.device, share: int = 1):
        super().__init__(experiment, device, share)
        self.task = tasks.rebuild(self.spec.name, self.spec.params, self.spec.source)
        self.data = TaskStrings(self.task, experiment.training)
        self.objective = StringObjective(self.task, share, experiment.training.steady, experiment.training.spans)

    def model(self, experiment: Experiment, directory: Directory | None) -> TokenClassifier:
        return build_classifier(experiment, self.task, self.device)

    def test_after(self, experiment: Experiment, scoring: Scoring) -> tuple[dict[str, Tensors], dict[str, Any]]:
        state, tests = scoring.state, experiment.tests
        best_is_last = state.best["step"] == state.step
        every = {"last": scoring.last, "best": scoring.last if best_is_last else state.best_weights}
        for which in ("last",) if best_is_last else ("last", "best"):
            load_weights(state.core, every[which])

            def after(scores: StringScores, which: str = which) -> None:
                scoring.after(f"test {which}", which, scores._asdict(), len(scores.correct), len(tests.lengths))

            known = state.scores.get(which)
            scores = score_strings(
                state.model,
                self.task,
                tests.lengths,
                tests.samples,
                tests.seed,
                device=self.device,
                autocast=state.training.precision,
                share=self.share,
                known=StringScores(**known) if known else None,
                after=after,
            )
            state.scores[which] = scores._asdict()
        validation = {key: state.best[key] for key in ("accuracy", "loss")}
        best = state.scores["last" if best_is_last else "best"]
        result = {
            "samples": tests.samples,
            "checkpoints": {
                "last": {"step": state.step, **state.scores["last"]},
                "best": {"step": state.best["step"], **best, "validation": validation},
            },
            "baseline": {str(n): self.task.baseline(n) for n in tests.lengths},
        }
        if which := which_lengths(self.task, experiment.training.curriculum.lengths[0], max(tests.lengths)):
            result["which_lengths"] = which
        return {"model": every["last"], "best": every["best"]}, result
