"""One model on several devices: each process computes its part of every batch, and all take the same step.

    gradient = Σ_r w_r · gradient of rank r's own loss,        w_r = its share of the loss of the whole batch

A batch is drawn as one process draws it, and rank r takes the r-th part of its rows. So loss, gradient and weights are,
to rounding, those of one process. `Replicated` (torch's DistributedDataParallel) has the whole model on every device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..errors import Error
from .objectives import Objective
from .state import TrainState
from .strategies import Made, Single
from .team import Team


class Distributed(Single):
    """The base of all ways to spread a model."""

    def __init__(self, team: Team):
        super().__init__(team.device)
        self.team = team
        self.leads = team.leads
        # Dropout draws other numbers in each part of a batch.
        self.noise = (team.rank,) if team.size > 1 else ()

    def check(self, batch: int) -> None:
        """Raises unless a batch can be parted."""
        size = self.team.size
        if batch % size:
            near = sorted({batch // size * size or size, -(-batch // size) * size})
            raise Error(
                f"training.batch must be a multiple of the {size} processes, each of which takes an equal part of it, "
                f"got {batch}. Use {' or '.join(map(str, near))}, or another --nproc-per-node."
            )

    def backward(self, states: Sequence[TrainState], batches: Sequence[Any], objective: Objective) -> Tensor:
        (state,), (batch,) = states, batches
        with self.collective():
            own, share = objective.split(batch, self.team.rank, self.team.size)
            measure, forward = objective.measure([own]), self._forward(state, self._model(state))
            parts, losses = objective.parts(own), []
            for number, part in enumerate(parts, 1):
                with self._added_up(state, last=number == len(parts)):
                    loss, score = measure(forward, *(tensor.to(self.device) for tensor in part))
                    # torch takes the mean over the processes.
                    (loss * (share * self.team.size)).backward()
                losses.append(torch.stack([loss.detach() * share, score / self.team.size]))
            return self.team.sum(reduce(torch.add, losses))[None]

    def clip(self, state: TrainState) -> Tensor:
        with self.collective():
            return super().clip(state)

    @contextlib.contextmanager
    def collective(self) -> Iterator[None]:
        """A block of calls that all processes make; an error in one of them leaves the others waiting."""
        try:
            yield
        except BaseException:
            self.team.broken = True
            raise

    def agreed(self, asked: bool) -> bool:
        with self.collective():
            return self.team.tell(asked)

    def led(self, work: Callable[[], Made]) -> Made:
        return self.team.led(work)

    def each(self, work: Callable[[], Made]) -> Made:
        return self.team.each(work)

    @contextlib.contextmanager
    def taking_part(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not self.team.in_step(error):
                self.team.fail(error)
            raise

    def _added_up(self, state: TrainState, last: bool) -> AbstractContextManager:
        """The forward and backward pass of one part of a batch; after the `last` all gradients are added up."""
        return nullcontext()


class Replicated(Distributed):
    """Each device has the whole model and optimiser; gradients are added up while they are computed.

    What it keeps is the checkpoint of one process.
    """

    def __init__(self, team: Team):
        super().__init__(team)
        self._wrapped: WeakKeyDictionary[TrainState, DistributedDataParallel] = WeakKeyDictionary()

    def prepare(self, state: TrainState, core: nn.Module | None = None) -> None:
        super().prepare(state, core)
        ids = [self.device.index] if self.device.type == "cuda" else None
        # Which weights a string needs may depend on its length. Found out anew each time, they also stay in the same
        # buckets, so that a resumed run adds in the same order.
        with self.collective():
            self._wrapped[state] = DistributedDataParallel(state.model, device_ids=ids, find_unused_parameters=True)

    def keep(self, state: TrainState) -> bool:
        return self.led(lambda: super(Replicated, self).keep(state))

    def _module(self, state: TrainState) -> nn.Module:
        return self._wrapped[state]

    def _added_up(self, state: TrainState, last: bool) -> AbstractContextManager:
        return nullcontext() if last else self._wrapped[state].no_sync()
