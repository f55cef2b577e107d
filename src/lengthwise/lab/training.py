"""The one training loop: a list of members (one, or a population) from where they stand to where they are done."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import torch

from ..errors import NonFiniteError
from ..seeds import derive
from .evaluation import count_right
from .experiment import Experiment
from .member import Member, untouched_random
from .population import losses
from .records import RunDirectory

LOG_EVERY = 10
"""Steps between two lines of the metrics; on a GPU also between two looks at the loss, which make the CPU wait."""

Advance = Callable[[Experiment, int, int, float, str], None]
"""Hears (experiment, step, steps, loss, phase)."""


class Stop:
    """Set when the user wants to stop; the loop looks at it between steps."""

    def __init__(self):
        self.asked = False


def keep_freed_memory() -> None:
    """Let the C library keep what a step frees for the next: a small model's step takes three quarters of the time.

    glibc hands blocks above 128 KiB back to the system at once, and is given cleared pages for the next; but once it
    has had one back of up to 32 MiB, it keeps all that are smaller. Elsewhere this does nothing.
    """
    torch.empty(2**23 - 2**12, dtype=torch.float32, device="cpu")


def validate(member: Member, share: int) -> tuple[float, float]:
    """Accuracy and mean loss on the member's validation strings."""
    member.classifier.eval()
    right, total, weighted = 0, 0, 0.0
    for batch in member.validation():
        n, length = batch.tokens.shape
        found = count_right(
            member.classifier,
            member.task,
            batch,
            device=member.device,
            autocast=member.training.precision,
            share=share,
            strict=True,
        )
        # In a test they are wrong; here they would choose the best checkpoint by a loss that is none.
        if found.overflowed:
            raise NonFiniteError(
                f"The model's logits are not finite at length {length} of {member.task.name}. "
                "Its weights or activations overflowed: lower training.lr."
            )
        right, total, weighted = right + found.right, total + n, weighted + found.loss * n
    member.classifier.train()
    return right / total, weighted / total


def save(member: Member, directory: RunDirectory | None) -> bool:
    """Replace the checkpoint, but never a good one by one with NaN in it; whether that was done."""
    if directory is None or not member.sound():
        return False
    directory.save_state(*member.state())
    return True


def train(
    members: Sequence[Member],
    directories: Sequence[RunDirectory | None],
    *,
    advance: Advance | None = None,
    stop: Stop | None = None,
    share: int = 1,
) -> bool:
    """Train all members to their end, in step; true when done, false when asked to stop (state kept either way)."""
    pairs = list(zip(members, directories, strict=True))
    keep_freed_memory()
    start = {id(member): member.step for member in members}
    for member in members:
        member.classifier.train()
    with untouched_random(members[0].device):
        while active := [(m, d) for m, d in pairs if not m.done]:
            if stop and stop.asked:
                break
            # Those resumed from an earlier checkpoint catch up first; then all go in step.
            behind = min(m.step for m, _ in active)
            now = [(m, d) for m, d in active if m.step == behind]
            began = time.perf_counter()
            _step(now, advance)
            for member, _ in now:
                member.seconds += (time.perf_counter() - began) / len(now)
            for member, directory in now:
                _after(member, directory, advance, share)
    for member, directory in pairs:
        if member.step != start[id(member)] or not member.done:
            save(member, directory)
    return all(member.done for member in members)


def looks(member: Member) -> bool:
    """Whether the loss of the next step is read: always but on a GPU; there when it is logged, kept or learned from."""
    t, training = member.step + 1, member.training
    due = t % LOG_EVERY == 0 or t % training.checkpointing.checkpoint_every == 0 or t == training.steps
    return due or member.device.type != "cuda" or training.curriculum.kind == "growing"


def _step(now: list[tuple[Member, RunDirectory | None]], advance: Advance | None) -> None:
    members = [member for member, _ in now]
    first = members[0]
    batches = [member.batch() for member in members]
    # Not the number of tokens, which a length need not fix.
    length = first.curriculum.length(first.step)
    torch.manual_seed(derive("noise", first.experiment.seed, first.step))
    found, accuracies = losses(members, batches)
    found.sum().backward()
    norms = torch.stack([member.norm() for member in members])
    look = looks(first)
    # Look before the step is taken: the weights at hand are the last good ones.
    seen = torch.stack([found.detach(), norms, accuracies]).T.tolist() if look else []
    for (member, directory), (value, size, _) in zip(now, seen, strict=False):
        if not (math.isfinite(value) and math.isfinite(size)):
            _not_finite(member, directory, "gradient" if math.isfinite(value) else "loss", value, length)
    for member in members:
        member.update()
    for (member, directory), (value, _, accuracy) in zip(now, seen, strict=False):
        member.curriculum.learn(length, accuracy)
        if directory and (member.step % LOG_EVERY == 0 or member.done):
            directory.log({"kind": "train", "step": member.step, "loss": value, "length": length})
        if advance:
            advance(member.experiment, member.step, member.training.steps, value, "train")


def _not_finite(member: Member, directory: RunDirectory | None, what: str, value: float, length: int) -> None:
    kept = ""
    # Since the last look weights may have gone bad, or running statistics in this very step: then the last checkpoint,
    # which is only ever written after a look, is the last good state.
    if directory and save(member, directory):
        kept = f" The last good state (step {member.step}) is kept in {directory.path}."
    optimizer = member.training.optimizer
    raise NonFiniteError(
        f"The {what} is not finite (loss {value}) at step {member.step + 1}, length {length}.{kept} "
        f"Lower training.lr (now {optimizer.lr:g}) or training.clip (now {optimizer.clip})."
    )


def _after(member: Member, directory: RunDirectory | None, advance: Advance | None, share: int) -> None:
    """Validate and checkpoint when it is time to."""
    every = member.training.checkpointing
    if member.step % every.validate_every == 0 or member.step == member.training.steps:
        accuracy, loss = validate(member, share)
        member.judge(accuracy, loss)
        if directory:
            directory.log({"kind": "validation", "step": member.step, "accuracy": accuracy, "loss": loss})
    if member.step % every.checkpoint_every == 0 and not member.done:
        save(member, directory)
