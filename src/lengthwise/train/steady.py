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
being ahead by more than rounding, Σ_j max(0, 1 - g_j / GAP) (mixers/block_lrnn.py), and there is no noise. Blocks that
no answer hangs on have more states than a proof can list. So late in training a block of the first state, or an entry
of one, becomes 0 where all answers to a batch are surely right without it.

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
SILENCED_FROM, SILENCED_EVERY = 0.75, 2
"""After this share of the steps something is silenced, in one step of so many.

Few columns then carry all, and one that flips loses it: steps must be short, and what is left needs time.
"""
SURE = 0.01
"""The mean loss without what is silenced is at most that: answers that are barely right are lost in the next steps."""
SILENT = 0.05
"""Entries of a first state that are smaller become 0 while some are silenced. One step moves them by less."""


class Steadied(Protocol):
    """A module that remembers, and can be made steady."""

    noise: float
    """The standard deviation of the noise on what it remembers; 0 but while a batch is measured."""
    forget: float
    """The share of gates that let go of what they hold; 0 but while a batch is measured."""

    def unsteadiness(self, slope: float, states: int) -> Tensor:
        """Returns how much steeper than `slope` the step is at so many of the states that it last came to."""
        ...


def steadied_parts(model: nn.Module) -> list[Steadied]:
    """The modules of a model that can be made steady; at least one."""
    if parts := [module for module in model.modules() if hasattr(module, "unsteadiness")]:
        return parts  # pyright: ignore[reportReturnType]
    raise Error(
        f"training.steady: {type(getattr(model, 'inner', model)).__name__} has no state that could be made steady, as "
        "rnn, gru and lstm have. Leave it off."
    )


@contextmanager
def with_noise(parts: Sequence[Steadied], noise: float, forget: float = 0.0) -> Iterator[None]:
    """A block in which what these parts remember has noise, and so many of their gates let go of it."""
    for part in parts:
        part.noise, part.forget = noise, forget
    try:
        yield
    finally:
        for part in parts:
            part.noise = part.forget = 0.0


def penalty(parts: Sequence[Steadied], settings: Steadiness, right: float) -> Tensor | float:
    """Returns the penalty on a batch that these parts have just read with noise; so much of it is `right`."""
    if not settings.contraction or right < RIGHT or int(torch.randint(EVERY, ())):
        return 0.0
    return EVERY * settings.contraction * sum(part.unsteadiness(settings.slope, STATES) for part in parts)


class Silencing:
    """Sets what no answer hangs on to 0, late in a training: of first states a block, or an entry."""

    def __init__(self, parts: Sequence[Steadied], state: TrainState):
        self.state = state
        self.firsts = [first for part in parts if (first := getattr(part, "initial", None)) is not None]
        """(h,b) the first state of each layer of automata; other parts have none."""
        state.optimizer.register_step_post_hook(self._hold)

    @property
    def now(self) -> bool:
        return bool(self.firsts) and self.state.step >= SILENCED_FROM * self.state.training.steps

    @torch.no_grad()
    def on(self, length: int, answers_hold: Callable[[], bool]) -> None:
        """Silences what is drawn, if the answers to strings of this length hold without it.

        Strings of at most half of the training lengths tell too little.
        """
        short = 2 * length <= self.state.training.curriculum.lengths[1]
        if short or not self.now or int(torch.randint(SILENCED_EVERY, ())):
            return
        first = self.firsts[int(torch.randint(len(self.firsts), ()))]
        if not len(left := first.nonzero()):
            return
        block, place = left[int(torch.randint(len(left), ()))].tolist()
        own = first[block].clone()
        first[block, slice(None) if int(torch.randint(2, ())) else place] = 0
        if not answers_hold():
            first[block] = own

    @torch.no_grad()
    def _hold(self, *_: object) -> None:
        """Keeps silent what Adam, which remembers, moves on."""
        for first in self.firsts if self.now else ():
            first[first.abs() < SILENT] = 0
