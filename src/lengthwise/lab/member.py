"""One model in training: its weights, optimiser, curriculum and best-so-far; a function of its experiment and step.

Batches, dropout and initial weights are seeded by (seed, step), so the state to go on from is weights, optimiser and a
few numbers; nothing else is kept.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from .. import models, tasks
from ..errors import Error, RecordError
from ..seeds import derive, generator
from ..tasks.base import Batch
from .curriculum import curriculum
from .evaluation import Tested
from .experiment import Experiment
from .files import Tensors
from .records import State

VALIDATION_LENGTHS = 16


def untouched_random(device: torch.device) -> AbstractContextManager:
    """A block after which the caller's random state, here and on `device`, is what it was."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def weights(module: nn.Module) -> Tensors:
    """Parameters and persistent buffers, each tensor once (tied ones under their first name)."""
    kept = module.state_dict()
    if extra := [name for name in kept if name.endswith("_extra_state")]:
        raise Error(f"The model keeps {extra[0]}, which a record cannot hold. Keep it in buffers, which are tensors.")
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: tensor.detach() for name, tensor in named.items() if name in kept}


def load_weights(module: nn.Module, tensors: Tensors) -> None:
    """Copy `tensors`, as made by `weights`, into `module`, whose shapes must be the same."""
    own = weights(module)
    if own.keys() != tensors.keys() or any(own[k].shape != tensors[k].shape for k in own):
        odd = sorted(own.keys() ^ tensors.keys()) or [k for k in own if own[k].shape != tensors[k].shape]
        raise RecordError(
            f"The stored weights are of another model: they differ in {', '.join(odd[:3])}. "
            "Was the model's code changed since? Delete the run to train it again."
        )
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def build(experiment: Experiment, device: torch.device) -> tuple[tasks.Task, models.TokenClassifier]:
    """The task and the freshly initialised model of an experiment; the global random state is left as it was."""
    task = tasks.get(experiment.task.name, **experiment.task.params)
    with untouched_random(device):
        torch.manual_seed(derive("init", experiment.seed))
        classifier = models.build(
            experiment.model.name,
            vocab_size=len(task.vocabulary),
            num_outputs=task.logits,
            settings=experiment.model.options,
        )
    return task, classifier.to(device, torch.float64 if experiment.training.precision == "fp64" else torch.float32)


def _dense(x: torch.Tensor) -> bool:
    """Whether a weight has its stretch of memory to itself, which is what the fused Adam goes through."""
    extent = 1 + sum((n - 1) * stride for n, stride in zip(x.shape, x.stride(), strict=True))
    return x.is_floating_point() and extent == x.numel()


class Member:
    def __init__(self, experiment: Experiment, device: torch.device):
        self.experiment, self.device = experiment, device
        self.training = experiment.training
        self.task, self.classifier = build(experiment, device)
        self.parameters: Tensors = dict(self.classifier.named_parameters())
        self.buffers: Tensors = dict(self.classifier.named_buffers())
        chosen = self.training.optimizer
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[chosen.kind]
        self.optimizer = kind(
            self.parameters.values(),
            lr=chosen.lr,
            betas=chosen.betas,
            eps=chosen.eps,
            weight_decay=chosen.weight_decay,
            fused=all(map(_dense, self.parameters.values())),
        )
        low, high = self.training.curriculum.lengths
        self.possible = self.task.lengths(low, high)
        self.curriculum = curriculum(self.training.curriculum, self.possible)
        self.step = 0
        self.best: dict[str, Any] = {"accuracy": -1.0, "loss": math.inf, "step": 0}
        self.best_weights: Tensors = {}
        self.stale = 0
        self.seconds = self.test_seconds = 0.0
        self.scores: dict[str, Tested] = {}
        """Test scores so far, per checkpoint: filled after training, kept so that a kill loses none."""

    @property
    def done(self) -> bool:
        patience = self.training.checkpointing.patience
        return self.step >= self.training.steps or (patience is not None and self.stale >= patience)

    def batch(self) -> Batch:
        """The training batch of the next step, on the CPU."""
        length = self.curriculum.length(self.step)
        draw = generator("train", self.experiment.seed, self.step)
        return self.task.sample(length, self.training.batch, draw)

    def validation(self) -> list[Batch]:
        """The validation strings: lengths spread over the training range, seeded apart from training and test."""
        step = max(1, len(self.possible) // VALIDATION_LENGTHS)
        lengths = self.possible[::-1][::step][:VALIDATION_LENGTHS]
        each = max(1, self.training.checkpointing.validation_samples // len(lengths))
        return [self.task.sample(n, each, generator("validation", self.experiment.seed, n)) for n in lengths]

    def rate(self) -> float:
        """The learning rate of the next step: linear warm-up, then constant or a cosine to zero."""
        t, warm, end = self.step, self.training.optimizer.warmup, self.training.steps
        rate = self.training.optimizer.lr
        if t < warm:
            return rate * (t + 1) / warm
        if self.training.optimizer.schedule == "cosine":
            return rate * 0.5 * (1 + math.cos(math.pi * (t - warm) / (end - warm)))
        return rate

    def norm(self) -> Tensor:
        """The gradient's norm; the gradient is clipped to `training.clip` on the way."""
        limit = math.inf if self.training.optimizer.clip is None else self.training.optimizer.clip
        return nn.utils.clip_grad_norm_(self.parameters.values(), limit)

    def update(self) -> None:
        """One optimiser step."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1

    def judge(self, accuracy: float, loss: float) -> bool:
        """Note a validation; true when it is the best so far (accuracy first, then loss)."""
        better = (accuracy, -loss) > (self.best["accuracy"], -self.best["loss"])
        if better:
            self.best = {"accuracy": accuracy, "loss": loss, "step": self.step}
            self.best_weights = {name: tensor.clone() for name, tensor in self.weights().items()}
        self.stale = 0 if better else self.stale + 1
        return better

    def sound(self) -> bool:
        """Whether no weight or statistic is NaN; infinity is no fault, for masks are made of it."""
        return not any(bool(torch.isnan(tensor).any()) for tensor in self.weights().values())

    def weights(self) -> Tensors:
        return weights(self.classifier.inner)

    def state(self) -> State:
        """All that is needed to go on."""
        tensors = {f"model.{name}": tensor for name, tensor in self.weights().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best_weights.items()}
        for name, parameter in self.parameters.items():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{key}.{name}"] = value.detach()
        meta = {
            "step": self.step,
            "best": self.best,
            "stale": self.stale,
            "seconds": [self.seconds, self.test_seconds],
            "curriculum": self.curriculum.state(),
            "scores": {which: found.correct for which, found in self.scores.items()},
            "overflowed": {which: found.overflowed for which, found in self.scores.items()},
        }
        return State(tensors, meta)

    def restore(self, state: State) -> None:
        """The inverse of `state`."""
        groups: dict[str, Tensors] = {"model": {}, "best": {}, "optimizer": {}}
        for name, tensor in state.tensors.items():
            group, rest = name.split(".", 1)
            groups[group][rest] = tensor
        load_weights(self.classifier.inner, groups["model"])
        self.best_weights = {name: tensor.to(self.device) for name, tensor in groups["best"].items()}
        for name, parameter in self.parameters.items():
            mine = {k: v for k, v in groups["optimizer"].items() if k.split(".", 1)[1] == name}
            if mine:
                # Fused, it goes through memory as it lies: its averages must lie as the weight does.
                self.optimizer.state[parameter] = {
                    key.split(".", 1)[0]: value.to(self.device)
                    if key.startswith("step.")
                    else torch.empty_like(parameter).copy_(value)
                    for key, value in mine.items()
                }
        self.step, self.best, self.stale = state.meta["step"], state.meta["best"], state.meta["stale"]
        self.seconds, self.test_seconds = state.meta["seconds"]
        # Checkpoints of before overflows were counted have none.
        overflowed = state.meta.get("overflowed", {})
        self.scores = {which: Tested(of, overflowed.get(which, {})) for which, of in state.meta["scores"].items()}
        self.curriculum.restore(state.meta["curriculum"])
