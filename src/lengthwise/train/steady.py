"""Steadiness: training that makes a model forget errors of what it remembers, from strings and their answers alone.

    loss = Σ ℓ(answers, with s + σ ε for every state s) + λ E_{s,x} Σ_i max(0, Σ_j |∂s'_i/∂s_j| / (1 - g_i) - κ)²
    s'   = step(s, x),  g = 0 but for the gate by which a unit of a GRU or LSTM holds what it has, z or f

Where all row sums of the Jacobian are at most κ < 1, an error in the state is at most κ of itself after every token, in
its largest entry. Then what a model does to strings of the training lengths it does at every length, and boxes
around its states close (verify/prove/recurrence.py). The noise makes it return to few states that are far apart.

A gate near 1 holds a value, and its errors, over all training lengths with nothing to come back to, and its own slope
hardly moves, for the sigmoid is flat there. So at a share of tokens, drawn for each unit anew, it is shut: what a unit
computes anew must be able to stand in for what it holds. And its row is divided by how far it lets go.

A stack of automata has exact states, and functions that a token chooses by argmaxes. Its penalty is what these lack of
being ahead by more than rounding, Σ_j max(0, 1 - g_j / GAP) (mixers/block_lrnn.py). Its noise is that each string may
begin without a share of x_0: where several entries carry the same, steps that merge two of them would cost no answer.
Blocks that no answer hangs on have more states than a proof can list. So late in training a block of x_0, or an entry
of one, becomes 0 where all answers to a batch are surely right without it; where they are asked after every prefix, for
a batch of long strings must tell of short ones, too.

A tree is made steady alike: s are its nodes, and a step makes a node of C of them (models/depth.py).

The penalty is paid for batches that are right, so that first the answers are learned: states that contract before
they are the machine's hold nothing. What is drawn is seeded by (seed, step), so a resumed run draws the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor, nn

from ..errors import Error
from .settings import Steadiness
from .state import TrainState

STATES = 16
"""At so many states the slopes are measured."""
RIGHT = 0.97
"""The share of a batch's strings that must be right for the penalty to be paid."""
EVERY = 4
"""The penalty is paid in one step of so many, and is so much the greater: slopes take more time than the loss."""
SILENCED_FROM = 0.75
"""From this share of the steps on entries are silenced: few columns carry all then, so that steps must be short."""
SILENCED_EVERY = 2
"""One long batch in so many is tried, so that what is left has time to become sure."""
SURE = 0.01
"""The mean loss without what is silenced is at most that: answers that are barely right are lost in the next steps."""


class Steadied(Protocol):
    """A module that remembers, and can be made steady."""

    noise: float
    """The standard deviation of the noise on what it remembers; 0 but while a batch is measured, as what follows."""
    forget: float
    """The share of gates that let go of what they hold."""
    leave_out: float
    """The share of x_0's entries that each string begins without."""

    def unsteadiness(self, slope: float, states: int) -> Tensor:
        """Returns how much steeper than `slope` the step is at so many of the states that it last came to."""
        ...


def steadied_parts(model: nn.Module) -> list[Steadied]:
    """The modules of a model that can be made steady; at least one."""
    if parts := [module for module in model.modules() if hasattr(module, "unsteadiness")]:
        return parts  # pyright: ignore[reportReturnType]
    raise Error(
        "training.steady: this model has nothing that could be made steady, as the states of rnn, gru and lstm, the "
        "nodes of regular-gpt and the choices of block-lrnn's automaton can be. Leave it off."
    )


@contextmanager
def with_noise(parts: Sequence[Steadied], noise: float, forget: float = 0, leave_out: float = 0) -> Iterator[None]:
    """A block in which what these parts remember has noise, so many gates let go of it, and so much of x_0 is away."""
    for part in parts:
        part.noise, part.forget, part.leave_out = noise, forget, leave_out
    try:
        yield
    finally:
        for part in parts:
            part.noise = part.forget = part.leave_out = 0.0


def penalty(parts: Sequence[Steadied], settings: Steadiness, right: float) -> Tensor | float:
    """Returns the penalty on a batch that these parts have just read with noise; so much of it is `right`."""
    if not settings.contraction or right < RIGHT or int(torch.randint(EVERY, ())):
        return 0.0
    return EVERY * settings.contraction * sum(part.unsteadiness(settings.slope, STATES) for part in parts)


class Silencing:
    """Sets blocks of x_0, or single entries, to 0 late in training, if all answers stay right without them."""

    def __init__(self, parts: Sequence[Steadied], state: TrainState):
        self.state = state
        self.first_states: list[Tensor] = [x for part in parts if (x := getattr(part, "moved", None)) is not None]
        """(h,b) x_0 of each layer of automata; other parts have none."""
        self._silent: list[Tensor] = []
        state.optimizer.register_step_pre_hook(self._note_silent)
        state.optimizer.register_step_post_hook(self._keep_silent)

    @property
    def is_late(self) -> bool:
        return self.state.step >= SILENCED_FROM * self.state.training.steps

    @torch.no_grad()
    def try_one(self, length: int, stay_right: Callable[[], bool]) -> None:
        """Silences what is drawn, if the answers to strings of this length stay right without it.

        Strings of at most half of the training lengths tell too little.
        """
        short = 2 * length <= self.state.training.curriculum.lengths[1]
        if short or not (self.first_states and self.is_late) or int(torch.randint(SILENCED_EVERY, ())):
            return
        first = self.first_states[int(torch.randint(len(self.first_states), ()))]
        if not len(sounding := first.nonzero()):
            return
        block, place = sounding[int(torch.randint(len(sounding), ()))].tolist()
        before = first[block].clone()
        first[block, slice(None) if int(torch.randint(2, ())) else place] = 0
        if not stay_right():
            first[block] = before

    def _note_silent(self, *_: object) -> None:
        self._silent = [first == 0 for first in self.first_states] if self.is_late else []

    @torch.no_grad()
    def _keep_silent(self, *_: object) -> None:
        """Undoes what an optimizer, which remembers, makes of entries that were 0."""
        for first, silent in zip(self.first_states, self._silent, strict=False):
            first[silent] = 0
