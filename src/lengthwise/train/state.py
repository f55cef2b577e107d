"""One model in training: its weights, optimiser, step, curriculum and best so far.

Batches, dropout and initial weights are seeded by (seed, step), so this is all that a checkpoint needs to hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from ..errors import Error, RecordError
from ..files import Tensors
from ..limits import need_memory
from .curriculum import make_curriculum
from .directory import Directory, SavedState
from .muon import Muon, matrices
from .settings import Optimizer, Training


def untouched_random(device: torch.device) -> AbstractContextManager:
    """A block after which the caller's random state, here and on `device`, is what it was."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def weights(module: nn.Module) -> Tensors:
    """Parameters and persistent buffers, each tensor once (tied ones under their first name)."""
    entries = module.state_dict()
    if extra := [name for name in entries if name.endswith("_extra_state")]:
        raise Error(f"The model keeps {extra[0]}, which a record cannot hold. Keep it in buffers, which are tensors.")
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: tensor.detach() for name, tensor in named.items() if name in entries}


def load_weights(module: nn.Module, tensors: Tensors) -> None:
    """Copy `tensors`, as made by `weights`, into `module`, whose shapes must be the same."""
    own = weights(module)
    check_alike(
        {name: (tensor.shape, tensor.is_floating_point()) for name, tensor in own.items()},
        {name: (tensor.shape, tensor.is_floating_point()) for name, tensor in tensors.items()},
    )
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def check_alike(own: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Raises unless weights described so, by their shapes and more, are those of one model."""
    if own != stored:
        odd = sorted(own.keys() ^ stored.keys()) or [name for name in own if own[name] != stored[name]]
        raise RecordError(
            f"The stored weights are of another model: they differ in {', '.join(odd[:3])}. "
            "Was the model's code changed since? Delete the run to train it again."
        )


class TrainState:
    """`name` is what progress calls it; `lengths` are the possible ones of its batches."""

    def __init__(
        self,
        model: nn.Module,
        training: Training,
        lengths: list[int],
        *,
        seed: int = 0,
        name: str = "",
        core: nn.Module | None = None,
        device: torch.device | None = None,
        directory: Directory | None = None,
    ):
        self.model, self.training, self.seed, self.name = model, training, seed, name
        self.core = core or model
        """The part of the model whose weights are recorded."""
        self.device = device or torch.device("cpu")
        self.directory = directory
        """Where it is logged and kept; None: nowhere."""
        self.parameters: Tensors = dict(model.named_parameters())
        if not any(weight.requires_grad for weight in self.parameters.values()):
            raise Error(f"{type(model).__name__} has no weights that can be trained. Unfreeze some (requires_grad).")
        self.buffers: Tensors = dict(model.named_buffers())
        self.optimizer = make_optimizer(model, self.parameters, training.optimizer)
        self.curriculum = make_curriculum(training.curriculum, lengths, training.steps)
        self.step = 0
        self.best: dict[str, Any] = {"accuracy": -1.0, "loss": math.inf, "step": 0}
        self.best_weights: Tensors = {}
        self.validations_since_best = 0
        self.train_seconds = self.test_seconds = 0.0
        self.begun_by: dict[str, Any] | None = None
        """The code that took the first step, as whoever runs the training names it."""
        self.scores: dict[str, Any] = {}
        """JSON-like test scores by checkpoint, kept with the rest so that a kill loses none."""

    def check_memory(self, devices: int = 1) -> None:
        """Raises where training would need more memory than is free, if so many devices share what it needs."""
        size = sum(weight.nbytes for weight in self.parameters.values() if weight.requires_grad)
        copies = 4 if self.training.optimizer.amsgrad else 3
        what = "The gradients and the optimiser's averages of the weights"
        need_memory(copies * size // devices, what, "Train a smaller model.", self.device)

    @property
    def done(self) -> bool:
        patience = self.training.checkpointing.patience
        impatient = patience is not None and self.validations_since_best >= patience
        return self.step >= self.training.steps or impatient

    def update(self) -> None:
        """One optimiser step."""
        rate = learning_rate(self.training.optimizer, self.step, self.training.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1

    def note_validation(self, accuracy: float, loss: float) -> bool:
        """Keep the weights if they are the best so far (accuracy first, then loss); whether they are."""
        better = (accuracy, -loss) > (self.best["accuracy"], -self.best["loss"])
        if better:
            self.best = {"accuracy": accuracy, "loss": loss, "step": self.step}
            self.best_weights = {name: tensor.clone() for name, tensor in self.weights().items()}
        self.validations_since_best = 0 if better else self.validations_since_best + 1
        go_back = self.training.checkpointing.go_back
        if go_back is not None and accuracy < self.best["accuracy"] - go_back:
            self.go_back()
        return better

    def go_back(self) -> None:
        """Take the best weights again, and nothing of the steps that led away from them."""
        load_weights(self.core, self.best_weights)
        for memory in self.optimizer.state.values():
            memory["exp_avg"].zero_()

    def weights(self) -> Tensors:
        return weights(self.core)

    def saved(self) -> SavedState:
        """All that is needed to go on."""
        tensors = {f"model.{name}": tensor for name, tensor in self.weights().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best_weights.items()}
        return SavedState(tensors | self.averages(), self.rest())

    def averages(self) -> Tensors:
        """Returns the optimiser's memory of every parameter, as a checkpoint names it."""
        return {
            f"optimizer.{key}.{name}": value.detach()
            for name, parameter in self.parameters.items()
            for key, value in self.optimizer.state.get(parameter, {}).items()
        }

    def rest(self) -> dict[str, Any]:
        """Returns what a checkpoint holds beside tensors."""
        return {
            "step": self.step,
            "best": self.best,
            "validations_since_best": self.validations_since_best,
            "seconds": [self.train_seconds, self.test_seconds],
            "curriculum": self.curriculum.state(),
            "scores": self.scores,
            "begun_by": self.begun_by,
        }

    def restore(self, saved: SavedState) -> None:
        """The inverse of `saved`."""
        groups: dict[str, Tensors] = {"model": {}, "best": {}, "optimizer": {}}
        for name, tensor in saved.tensors.items():
            group, rest = name.split(".", 1)
            groups[group][rest] = tensor
        load_weights(self.core, groups["model"])
        self.best_weights = {name: tensor.to(self.device) for name, tensor in groups["best"].items()}
        for name, tensor in groups["optimizer"].items():
            key, parameter = name.split(".", 1)
            self.place_for(key, self.parameters[parameter], tensor.dtype).copy_(tensor)
        self.go_on(saved.meta)

    def place_for(self, key: str, parameter: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """A new tensor of the optimiser's, to be filled with what it is to remember of a parameter.

        Fused, Adam goes through memory as it lies, so its averages lie as the weight does, and counts its steps on the
        weights' device, else on the CPU.
        """
        if key == "step":
            device = self.device if self.optimizer.defaults["fused"] else None
            place = torch.empty((), dtype=dtype, device=device)
        else:
            place = torch.empty_like(parameter, requires_grad=False)
        self.optimizer.state[parameter][key] = place
        return place

    def go_on(self, meta: dict[str, Any]) -> None:
        """Stand where the checkpoint stood whose rest this is."""
        self.step, self.best, self.scores = meta["step"], meta["best"], meta["scores"]
        self.validations_since_best = meta["validations_since_best"]
        self.train_seconds, self.test_seconds = meta["seconds"]
        self.begun_by = meta.get("begun_by")
        self.curriculum.restore(meta["curriculum"])


def learning_rate(optimizer: Optimizer, step: int, steps: int) -> float:
    """The rate of the step after `step` steps: linear warm-up, then constant or a cosine to zero."""
    if step < optimizer.warmup:
        return optimizer.lr * (step + 1) / optimizer.warmup
    if optimizer.schedule == "cosine":
        return optimizer.lr * 0.5 * (1 + math.cos(math.pi * (step - optimizer.warmup) / (steps - optimizer.warmup)))
    return optimizer.lr


def make_optimizer(model: nn.Module, parameters: Tensors, settings: Optimizer) -> torch.optim.Optimizer:
    """`parameters`: the model's, by their names, as far as they are stepped here."""
    options: dict[str, Any] = {
        "lr": settings.lr,
        "betas": settings.betas,
        "eps": settings.eps,
        "amsgrad": settings.amsgrad,
        "weight_decay": settings.weight_decay,
        "fused": settings.fused and all(map(_dense, parameters.values())),
    }
    if settings.kind == "muon":
        return Muon(parameters.values(), matrices(model, parameters), **options)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[settings.kind]
    return kind(parameters.values(), **options)


def _dense(x: torch.Tensor) -> bool:
    """Returns whether a weight has its stretch of memory to itself, which is what the fused Adam goes through."""
    extent = 1 + sum((n - 1) * stride for n, stride in zip(x.shape, x.stride(), strict=True))
    return x.is_floating_point() and extent == x.numel()
