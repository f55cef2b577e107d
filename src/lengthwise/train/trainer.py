"""The one training loop: from where a model stands to where it is done, validated and kept on the way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import Error, NonFiniteError, OutOfMemory
from ..models.token_classifier import evaluating
from ..seeds import derive
from .counting import ran_out
from .data import Data
from .objectives import Objective
from .state import TrainState, untouched_random
from .strategies import Single

LOG_EVERY = 10
"""Steps between two lines of the metrics; on a GPU also between two looks at the loss, which make the CPU wait."""


@dataclass(frozen=True)
class Progress:
    """The progress of a piece of work."""

    what: str
    """The name of the work: an experiment's hash, where an experiment is run."""
    step: int
    steps: int
    loss: float = 0.0
    phase: str = "train"
    """"train", or "test" and the name of the checkpoint that is tested."""


Hear = Callable[[Progress], None]


class Interrupted(Error):
    """Stopped on request, with all state kept."""


class Stop:
    """Set when the user wants to stop; whoever works looks at it between two steps."""

    def __init__(self):
        self.asked = False

    def check(self) -> None:
        """Raises `Interrupted` if stopping was asked for. Call it when all state is kept."""
        if self.asked:
            raise Interrupted("Stopped; all state is kept.")


class Trainer:
    """Trains one state, or several of one experiment that differ in seed and learning rate, all in step.

    `Trainer(state, data, objective, strategy).run()` ends when all are done, or raises `Interrupted`.
    """

    def __init__(
        self,
        state: TrainState | Sequence[TrainState],
        data: Data,
        objective: Objective,
        strategy: Single | None = None,
        *,
        hear: Hear | None = None,
        stop: Stop | None = None,
    ):
        self.states = [state] if isinstance(state, TrainState) else list(state)
        self.data, self.objective = data, objective
        self.strategy = strategy or Single(self.states[0].device)
        self.hear, self.stop = hear, stop or Stop()

    def run(self) -> None:
        keep_freed_memory()
        begun = [state.step for state in self.states]
        for state in self.states:
            state.model.train()
            self.strategy.prepare(state)
            self.objective.prepare(state, stacked=len(self.states) > 1)
        with untouched_random(self.strategy.device):
            while active := [state for state in self.states if not state.done]:
                if self.strategy.agreed(self.stop.asked):
                    self.stop.asked = True
                    break
                # Those resumed from an earlier checkpoint catch up first; then all go in step.
                behind = min(state.step for state in active)
                now = [state for state in active if state.step == behind]
                began = time.perf_counter()
                self.take_step(now)
                for state in now:
                    state.train_seconds += (time.perf_counter() - began) / len(now)
                for state in now:
                    self._validate_and_save(state)
        for state, step in zip(self.states, begun, strict=True):
            if state.step != step or not state.done:
                self.strategy.keep(state)
        if not all(state.done for state in self.states):
            self.stop.check()

    def take_step(self, states: Sequence[TrainState]) -> None:
        """One step of all these states, which stand at the same one."""
        first = states[0]
        # Not the number of tokens, which a length need not fix.
        length = first.curriculum.length(first.step)
        batches = self.batches(states)
        torch.manual_seed(derive("noise", first.seed, first.step, *self.strategy.noise))
        try:
            losses = self.strategy.backward(states, batches, self.objective)
        except RuntimeError as error:
            if not ran_out(error):
                raise
            raise OutOfMemory(
                f"A step of training.batch={first.training.batch} at length {length} ran out of memory. Lower "
                "training.batch, train shorter strings, or a smaller model."
            ) from error
        norms = torch.stack([self.strategy.clip(state) for state in states])
        # Look before the step is taken: the weights at hand are the last good ones.
        seen = torch.cat([losses, norms[:, None]], 1).tolist() if loss_is_read(first, self.objective) else []
        for state, (loss, _, norm) in zip(states, seen, strict=False):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                self._raise_not_finite(state, loss, length)
        for state in states:
            state.update()
        for state, (loss, accuracy, _) in zip(states, seen, strict=False):
            state.curriculum.learn(length, accuracy, state.step)
            logged = state.step % LOG_EVERY == 0 or state.done or (state.step == 1 and self.objective.logs_first_step)
            if state.directory and logged:
                row = {"kind": "train", "step": state.step, "loss": loss, "length": length}
                state.directory.log({**row, "accuracy": accuracy} if self.objective.has_accuracy else row)
            if self.hear:
                self.hear(Progress(state.name, state.step, state.training.steps, loss))

    def batches(self, states: Sequence[TrainState]) -> list[Any]:
        """The batches of their next step, on the CPU."""
        return [self.data.batch(state.seed, state.step, state.curriculum.length(state.step)) for state in states]

    def _validate_and_save(self, state: TrainState) -> None:
        """Validate and checkpoint when it is time to."""
        every = state.training.checkpointing
        due = state.step % every.validate_every == 0 or state.step == state.training.steps
        if due and (batches := self.data.validation(state.seed)):
            with self.strategy.whole(state), evaluating(state.model):
                accuracy, loss = self.strategy.led(lambda: self.objective.validate(state, batches))
                state.note_validation(accuracy, loss)
            if state.directory:
                seen = {"accuracy": accuracy, "loss": loss} if self.objective.has_accuracy else {"loss": loss}
                state.directory.log({"kind": "validation", "step": state.step, **seen})
                if speed := self.objective.tokens_per_second(state):
                    state.directory.log({"kind": "speed", "step": state.step, "tokens_per_second": speed})
        if every.sample_every and state.step % every.sample_every == 0:
            with self.strategy.whole(state), evaluating(state.model):
                text = self.strategy.led(lambda: self.objective.sample(state) if state.directory else None)
            if state.directory and text is not None:
                state.directory.log({"kind": "sample", "step": state.step, "text": text})
        if state.step % every.checkpoint_every == 0 and not state.done:
            self.strategy.keep(state)

    def _raise_not_finite(self, state: TrainState, loss: float, length: int) -> None:
        remedy = ""
        # Since the last look weights may have gone bad, or running statistics in this very step: then the last
        # checkpoint, which is only ever written after a look, is the last good state.
        if self.strategy.keep(state) and state.directory:
            remedy = f" The last good state (step {state.step}) is kept in {state.directory.path}."
        optimizer = state.training.optimizer
        raise NonFiniteError(
            f"The {'gradient' if math.isfinite(loss) else 'loss'} is not finite (loss {loss}) at step "
            f"{state.step + 1}, length {length}.{remedy} "
            f"Lower training.lr (now {optimizer.lr:g}) or training.clip (now {optimizer.clip})."
        )


def loss_is_read(state: TrainState, objective: Objective) -> bool:
    """Returns whether the loss of the next step is read: on a GPU only when it is logged, kept or learned from."""
    step, training = state.step + 1, state.training
    due = step % LOG_EVERY == 0 or step % training.checkpointing.checkpoint_every == 0 or step == training.steps
    due |= step == 1 and objective.logs_first_step
    return due or state.device.type != "cuda" or training.curriculum.kind == "growing"


def keep_freed_memory() -> None:
    """Let the C library keep what a step frees for the next: a small model's step takes three quarters of the time.

    glibc hands blocks above 128 KiB back to the system at once, and is given cleared pages for the next; but once it
    has had one back of up to 32 MiB, it keeps all that are smaller. Elsewhere this does nothing.
    """
    torch.empty(2**23 - 2**12, dtype=torch.float32, device="cpu")
