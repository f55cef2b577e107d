"""How a step is computed: one model on one device, or a population in one forward pass.

A strategy owns the device, the backward pass, clipping, and what a checkpoint saves and loads: the four things that
differ where a model is spread over several devices (`distributed.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..errors import Error
from ..models.token_classifier import PresetClassifier
from .counting import precision
from .data import Data
from .directory import SavedState
from .objectives import Objective
from .replay import Replayer
from .state import TrainState, untouched_random

Made = TypeVar("Made")
Step = Callable[..., Tensor]
"""From the tensors of a part to (M, 2) the losses and the shares right, with the gradients added on the way."""


class Single:
    """One model on one device."""

    leads = True
    """Whether this process has the records."""
    noise: tuple[int, ...] = ()
    """What seeds dropout beside the seed and the step."""

    def __init__(self, device: torch.device | str = "cpu"):
        self.device = torch.device(device)
        self._compiled: WeakKeyDictionary[TrainState, Callable[..., Any]] = WeakKeyDictionary()

    def backward(self, states: Sequence[TrainState], batches: Sequence[Any], objective: Objective) -> Tensor:
        """(M, 2) the loss and the share right of every state; adds to the gradients of its parameters."""
        (state,), (batch,) = states, batches
        measure, forward = objective.measure(batches), self._forward(state, self._model(state))
        losses = []
        for part in objective.parts(batch):
            loss, score = measure(forward, *(tensor.to(self.device) for tensor in part))
            loss.backward()
            losses.append(torch.stack([loss.detach(), score]))
        return reduce(torch.add, losses)[None]

    def clip(self, state: TrainState) -> Tensor:
        """The gradient's norm; the gradient is clipped to `training.clip` on the way."""
        limit = state.training.optimizer.clip
        return nn.utils.clip_grad_norm_(state.parameters.values(), torch.inf if limit is None else limit)

    def taking_part(self) -> AbstractContextManager[None]:
        """A block in which all processes train one model."""
        return nullcontext()

    def spread(self, state: TrainState) -> None:
        """Lay the new model out over the devices."""
        state.check_memory()

    def collect(self, state: TrainState) -> None:
        """Make the trained model that of one process again."""

    def whole(self, state: TrainState) -> AbstractContextManager[None]:
        """A block in which `state.model` has the weights of this step."""
        return nullcontext()

    def agreed(self, asked: bool) -> bool:
        """Returns whether to stop, which all processes must do at the same step."""
        return asked

    def led(self, work: Callable[[], Made]) -> Made:
        """Runs `work` in one process and returns its result in all."""
        return work()

    def each(self, work: Callable[[], Made]) -> Made:
        """Runs `work` in every process, and returns its result if it fails in none."""
        return work()

    def keep(self, state: TrainState) -> bool:
        """Replace the checkpoint, but never a good one by one with NaN in it; whether that was done."""
        # Infinity is no fault, for masks are made of it.
        if state.directory is None or any(tensor.isnan().any() for tensor in state.weights().values()):
            return False
        state.directory.save_state(*self.save(state))
        return True

    def save(self, state: TrainState) -> SavedState:
        """Returns the contents of a checkpoint."""
        return state.saved()

    def load(self, state: TrainState, saved: SavedState) -> None:
        """Go on from a checkpoint."""
        state.restore(saved)

    def prepare(self, state: TrainState, core: nn.Module | None = None) -> None:
        """Make the model compute as the training asks; `core`: what of it has the layers."""
        if state.training.recompute:
            core = core or state.core
            # The second is its name in earlier versions of transformers.
            names = ("activation_checkpointing_enable", "gradient_checkpointing_enable")
            enable = next((getattr(core, name) for name in names if hasattr(core, name)), None)
            if enable is None or not getattr(core, "supports_gradient_checkpointing", False):
                raise Error(
                    f"training.recompute: {type(core).__name__} cannot compute its activations again. Leave it "
                    "out, or lower objective.tokens_at_once or training.batch."
                )
            enable({"use_reentrant": False})

    def _model(self, state: TrainState) -> Callable[..., Any]:
        """Returns what is called in training: the model, or what torch.compile made of it."""
        if not state.training.compile:
            return self._module(state)
        if state not in self._compiled:
            self._compiled[state] = torch.compile(self._module(state))
        return self._compiled[state]

    def _module(self, state: TrainState) -> nn.Module:
        return state.model

    def _forward(self, state: TrainState, call: Callable[..., Any]) -> Callable[..., Any]:
        def forward(*arguments: Any, **options: Any) -> Any:
            with precision(state.training.precision, self.device):
                return call(*arguments, **options)

        return forward


class Stacked(Single):
    """Many models, one forward: parameters stacked, the model mapped over them with `torch.func`.

    Each state keeps its own parameters, optimiser and batches; only the forward and backward pass are shared:
    `Σ_m loss(θ_m, batch_m)` has the gradients of the models side by side, since θ_m enters the m-th term alone.
    So a model ends where it would have ended alone, to rounding.

    What can be mapped draws no random numbers and decides nothing by values: on a GPU its steps are replayed where the
    model is this library's own.
    """

    def __init__(self, device: torch.device | str = "cpu"):
        super().__init__(device)
        self.replayer = Replayer() if self.device.type == "cuda" else None  # where steps are launched

    def backward(self, states: Sequence[TrainState], batches: Sequence[Any], objective: Objective) -> Tensor:
        if len(states) == 1:
            return self._alone(states, batches, objective)
        first, measure = states[0], objective.measure(batches)

        def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], *part: Tensor) -> tuple[Tensor, Tensor]:
            def call(*arguments: Any, **options: Any) -> Any:
                return functional_call(first.model, (parameters, buffers), arguments, options)

            return measure(self._forward(first, call), *part)

        def step(*stacked: Tensor) -> Tensor:
            parameters = {name: torch.stack([s.parameters[name] for s in states]) for name in first.parameters}
            buffers = {name: torch.stack([s.buffers[name] for s in states]) for name in first.buffers}
            # Mapped on a GPU, torch's fused attention has no backward pass of most lengths.
            plain = sdpa_kernel(SDPBackend.MATH) if self.device.type == "cuda" else nullcontext()
            with plain, warnings.catch_warnings():
                # torch maps its fused attention by a loop on the CPU and says so; nothing can be done about it here.
                warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
                losses, scores = vmap(one, randomness="error")(parameters, buffers, *stacked)
            losses.sum().backward()
            return torch.stack([losses.detach(), scores], 1)

        alike = [torch.stack(parts) for parts in zip(*objective.align(batches), strict=True)]
        return self._run(step, states, alike, objective.kind)

    def _alone(self, states: Sequence[TrainState], batches: Sequence[Any], objective: Objective) -> Tensor:
        # The gradients of several parts add up, and a replay writes its own.
        if self.replayer is None or len(parts := objective.parts(batches[0])) > 1:
            return super().backward(states, batches, objective)
        measure, forward = objective.measure(batches), self._forward(states[0], self._model(states[0]))

        def step(*part: Tensor) -> Tensor:
            loss, score = measure(forward, *part)
            loss.backward()
            return torch.stack([loss.detach(), score])[None]

        return self._run(step, states, parts[0], objective.kind)

    def _run(self, step: Step, states: Sequence[TrainState], part: Sequence[Tensor], kind: Hashable) -> Tensor:
        # A model of somebody else may do something in Python at every step, which no replay does.
        if self.replayer is None or not isinstance(states[0].model, PresetClassifier):
            return step(*(tensor.to(self.device) for tensor in part))
        weights = [weight for state in states for weight in state.parameters.values() if weight.requires_grad]
        return self.replayer.run(states, kind, step, part, weights)

    def collect(self, state: TrainState) -> None:
        if self.replayer:
            self.replayer.forget()

    def takes(self, state: TrainState, data: Data, objective: Objective, *, alone: bool = False) -> bool:
        """Returns whether the model can be mapped: all it does has a batching rule, and it draws no random numbers.

        alone: it is not to be mapped but replayed, which a batch in several parts is not.
        """
        if not getattr(state.model, "stackable", False) or state.training.recompute or state.training.compile:
            return False
        batch = data.batch(state.seed, state.step, state.curriculum.length(state.step))
        if alone and len(objective.parts(batch)) > 1:
            return False
        try:
            with untouched_random(self.device):
                self.backward([state, state], [batch] * 2, objective)
        except (Error, RuntimeError, ValueError, NotImplementedError):
            return False
        finally:
            state.optimizer.zero_grad(set_to_none=True)
        return True
