"""The task and the model of an experiment as they are before the first step, initialised by the seed alone."""

from __future__ import annotations

from typing import Any

import torch

from .. import models, tasks
from ..models import TokenClassifier
from ..seeds import derive
from ..train.state import untouched_random
from .experiment import Experiment, ModelSpec


def new_model(experiment: Experiment) -> TokenClassifier:
    """The model of an experiment before its first step, on the CPU."""
    return build_classifier(experiment, build_task(experiment), torch.device("cpu"))


def build_task(experiment: Experiment) -> tasks.Task:
    spec = experiment.task
    if spec.source:
        return tasks.rebuild(spec.name, spec.params, spec.source)
    return tasks.get(spec.name, **spec.params)


def build_classifier(experiment: Experiment, task: tasks.Task, device: torch.device) -> TokenClassifier:
    """The model of an experiment on strings; the global random state is left as it was."""
    classifier = _build(experiment.model, len(task.vocabulary), experiment.seed, task.logits, device)
    return classifier.to(device, torch.float64 if experiment.training.precision == "fp64" else torch.float32)


def build_language_model(spec: ModelSpec, tokenizer: Any, seed: int) -> TokenClassifier:
    """A model for the tokens of this tokenizer; the global random state is left as it was."""
    model = _build(spec, len(tokenizer), seed)
    for config in (getattr(model.inner, "config", None), getattr(model.inner, "generation_config", None)):
        if config is not None:
            config.eos_token_id = tokenizer.eos_token_id
    return model


def _build(
    spec: ModelSpec, size: int, seed: int, outputs: int | None = None, device: torch.device | None = None
) -> TokenClassifier:
    with untouched_random(device or torch.device("cpu")):
        torch.manual_seed(derive("init", seed))
        return models.build(spec.name, vocab_size=size, num_outputs=outputs, settings=spec.options, source=spec.source)
