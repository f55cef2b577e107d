"""An experiment on a task's strings: what the trainer is given, how the weights are tested, what the result says."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from .. import models, tasks
from ..errors import Error
from ..evaluate import StringScores, score_strings
from ..files import Tensors
from ..seeds import derive
from ..train import Directory, Progress, StringObjective, TaskStrings, TrainState
from ..train.state import load_weights, untouched_random
from .experiment import Experiment
from .tested_lengths import which_lengths


def build(experiment: Experiment, device: torch.device) -> tuple[tasks.Task, models.TokenClassifier]:
    """The task and the freshly initialised model of an experiment; the global random state is left as it was."""
    task = build_task(experiment)
    return task, build_classifier(experiment, task, device)


def new_model(experiment: Experiment) -> models.TokenClassifier:
    """The model of an experiment before its first step, on the CPU."""
    return build(experiment, torch.device("cpu"))[1]


def build_task(experiment: Experiment) -> tasks.Task:
    spec = experiment.task
    if spec.source:
        return tasks.rebuild(spec.name, spec.params, spec.source)
    return tasks.get(spec.name, **spec.params)


def build_classifier(experiment: Experiment, task: tasks.Task, device: torch.device) -> models.TokenClassifier:
    """Initialised by the experiment's seed alone."""
    with untouched_random(device):
        torch.manual_seed(derive("init", experiment.seed))
        classifier = models.build(
            experiment.model.name,
            vocab_size=len(task.vocabulary),
            num_outputs=task.logits,
            settings=experiment.model.options,
            source=experiment.model.source,
        )
    return classifier.to(device, torch.float64 if experiment.training.precision == "fp64" else torch.float32)


class OnStrings:
    """The task is built once, and a model for each state."""

    def __init__(self, experiment: Experiment, device: torch.device, share: int = 1):
        if experiment.objective.kind != "strings":
            raise Error(f"A task is trained with the objective strings, got {experiment.objective.kind}.")
        self.task, self.device, self.share = build_task(experiment), device, share
        self.data = TaskStrings(self.task, experiment.training)
        self.objective = StringObjective(self.task, share)

    def state(self, experiment: Experiment, directory: Directory | None = None) -> TrainState:
        classifier = build_classifier(experiment, self.task, self.device)
        return TrainState(
            classifier,
            experiment.training,
            self.data.lengths,
            seed=experiment.seed,
            name=experiment.hash,
            core=classifier.inner,
            device=self.device,
            directory=directory,
        )

    def test_before(self, experiment: Experiment, state: TrainState, check: Callable[[], None]) -> None:
        """An untrained model on strings is worth a guess: nothing is tested."""

    def test_after(
        self,
        experiment: Experiment,
        state: TrainState,
        hear: Callable[[Progress], None],
        keep: Callable[[Tensors], None],
        check: Callable[[], None],
    ) -> tuple[dict[str, Tensors], dict[str, Any]]:
        """Test the last and the best weights; these weights, and what the result says of them.

        `keep` is given the last weights after every length: whichever are being tested, a checkpoint is of the last.
        """
        last = {name: tensor.clone() for name, tensor in state.weights().items()}
        best_is_last = state.best["step"] == state.step
        tested = {"last": last} if best_is_last else {"last": last, "best": state.best_weights}
        tests, began = experiment.tests, time.perf_counter() - state.test_seconds
        for which, weights in tested.items():
            load_weights(state.core, weights)

            def after(scores: StringScores, which: str = which) -> None:
                done, lengths = len(scores.correct), len(tests.lengths)
                hear(Progress(state.name, done, lengths, phase=f"test {which}"))
                state.scores[which] = scores._asdict()
                state.test_seconds = time.perf_counter() - began
                keep(last)

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
        said = {
            "samples": tests.samples,
            "checkpoints": {
                "last": {"step": state.step, **state.scores["last"]},
                "best": {"step": state.best["step"], **best, "validation": validation},
            },
            "baseline": {str(n): self.task.baseline(n) for n in tests.lengths},
        }
        if which := which_lengths(self.task, experiment.training.curriculum.lengths[0], max(tests.lengths)):
            said["which_lengths"] = which
        return {"model": last, "best": last if best_is_last else state.best_weights}, said
