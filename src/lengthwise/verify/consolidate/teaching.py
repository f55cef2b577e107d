"""What every way of consolidation shares: a copy, descent on conditions, and proofs until one goes through."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...errors import Error
from ...models import LengthwiseForCausalLM
from ..verdict import Proof, Unknown

HARDER = 3
"""How often more is asked of a copy that is not proved."""


class CannotBeTaught(Error):
    """Says why no copy of a network is taught: neither the machine of a task nor its own."""

    def __init__(self, why: str):
        super().__init__(f"certify: this model cannot be taught a machine: {why}.")


class TaughtCopy(NamedTuple):
    """A copy, and how many of all its codes, sets, neurons or entries are those that training had given the model."""

    model: LengthwiseForCausalLM
    own: int
    all: int
    of: str
    proof: Proof | Unknown | None = None
    """The last attempt at a proof, where one was made."""


def descend(
    weights: Iterable[Any],
    loss: Callable[[int], Tensor | None],
    *,
    steps: int,
    ends: float,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    clip: float = float("inf"),
    rate: Callable[[int], float] = lambda step: 1.0,
) -> bool:
    """Follow the gradient of `loss(step)` by Adam until it is None: True. False: the steps or the seconds are over.

    `weights`: as torch's optimisers take them. `ends`: of `time.monotonic`. `rate`: what share of `lr` a step takes.
    """
    optimiser = torch.optim.Adam(weights, lr, betas)
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)
    for step in range(steps):
        if (value := loss(step)) is None:
            return True
        if time.monotonic() > ends:
            break
        optimiser.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(parameters, clip)
        optimiser.step()
        schedule.step()
    return False


def right_gap(logits: Tensor, right: Tensor) -> Tensor:
    """(…) by how much the right one of the logits (…,K) is ahead of the largest other; of booleans (…,K), whether each
    is to be above 0, the least that any is on its side."""
    if right.shape == logits.shape:
        return torch.where(right.bool(), logits, -logits).amin(-1)
    ahead = logits.gather(-1, right[..., None])[..., 0]
    return ahead - logits.scatter(-1, right[..., None], -torch.inf).amax(-1)


def prove_harder(
    teach: Callable[[int], str | None], prove: Callable[[float], Proof | Unknown | str], ends: float
) -> Proof | Unknown:
    """The first proof after `teach(0)`, `teach(1)`, …, each of which may say why it cannot; or the last attempt."""
    attempt: Proof | Unknown | str = Unknown("there was no time to consolidate")
    for harder in range(HARDER):
        if reason := teach(harder):
            return Unknown(reason)
        attempt = prove(max(1.0, ends - time.monotonic()))
        if isinstance(attempt, dict):
            break
    return Unknown(attempt) if isinstance(attempt, str) else attempt


def release(clone: nn.Module, model: nn.Module) -> None:
    """Leave no gradients in a copy that was taught, and have those of its weights learn that learn in the model."""
    for p, own in zip(clone.parameters(), model.parameters(), strict=True):
        p.requires_grad_(own.requires_grad)
        p.grad = None
