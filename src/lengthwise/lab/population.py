"""Many members, one forward: parameters stacked, the model mapped over them with `torch.func`.

Each member keeps its own parameters, optimiser and data; only the forward and backward pass are shared:
`Σ_m loss(θ_m, batch_m)` has the gradients of the members side by side, since θ_m enters the m-th term alone.
So a member ends where it would have ended alone, to rounding.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from ..tasks.base import Batch
from .evaluation import one_place, precision
from .member import Member, untouched_random
from .scoring import logits, loss, narrow, right


def stacks(member: Member) -> bool:
    """Whether the model can be mapped: it has a batching rule for all it does and draws no random numbers."""
    if not getattr(member.classifier, "stackable", False):
        return False
    try:
        with untouched_random(member.device):
            losses([member, member], [member.batch()] * 2)
    except (RuntimeError, ValueError, NotImplementedError):
        return False
    return True


def losses(members: Sequence[Member], batches: Sequence[Batch]) -> tuple[Tensor, Tensor]:
    """(M,) losses, differentiable to every member's own parameters, and (M,) shares of right strings."""
    first = members[0]
    task, classifier = first.task, first.classifier
    last = all(one_place(task, batch) and task.supervision == "last" for batch in batches)

    def judge(call: Callable[..., Tensor], batch: Batch) -> tuple[Tensor, Tensor]:
        with precision(first.training.precision, first.device):
            found = logits(call, batch, last)
        asked = narrow(batch, last)
        return loss(found, asked, task), right(found, asked, task).to(found.dtype).mean()

    if len(members) == 1:
        value, share = judge(classifier, Batch(*(a.to(first.device) for a in batches[0])))
        return value[None], share[None]

    parameters = {name: torch.stack([m.parameters[name] for m in members]) for name in first.parameters}
    buffers = {name: torch.stack([m.buffers[name] for m in members]) for name in first.buffers}

    def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], *batch: Tensor) -> tuple[Tensor, Tensor]:
        def call(tokens: Tensor, last: bool) -> Tensor:
            return functional_call(classifier, (parameters, buffers), (tokens,), {"last": last})

        return judge(call, Batch(*batch))

    alike = task.align(batches)
    stacked = [torch.stack(parts).to(first.device) for parts in zip(*alike, strict=True)]
    with warnings.catch_warnings():
        # torch maps its fused attention by a loop on the CPU and says so; nothing can be done about it here.
        warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
        return vmap(one, randomness="error")(parameters, buffers, *stacked)
