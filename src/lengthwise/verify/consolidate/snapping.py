"""Trees whose nodes are replaced by the nearest of their centres, and what brings nodes near enough to them.

A proof by boxes wants what is near a centre to come nearer. This wants only that the node of any tuple of centres is
nearer to the centre of the product than to any other: the next node is then made of that centre, whatever was off.

With a centre c_m for each element m of the machine's algebra, learned beside the weights, a copy is taught

    mean |f(c_a, ...) - c_m|² + mean max_i |f(c_a, ...) - c_m|_i    over all products m = a · … that the machine has
    mean relu(MARGIN - lead of the right output on c_m)             the head

from the model's own weights on, and from the centres where its own nodes settle.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import Error
from ...models import LengthwiseForCausalLM
from ..algebra import MachineAlgebra
from ..claim import Claim
from ..extraction import extract
from ..prove.boxes import TreeBoxes, settled_centres
from ..prove.node import Node, refusal
from .gate import REFUSED
from .neurons import own_sets
from .teaching import TaughtCopy, descend, release

ROUNDS = (0, 1, 4, 40)
"""How often nodes of centres are centres in turn. What does not come nearer goes away from where it was taught to."""
MARGIN = 5.0
NEAR = 0.02
"""Nodes of centres that are this near where they should be are right when snapped."""
STEPS, RATE, CENTRES_RATE = 100_000, 1e-3, 3e-3


def taught(model: LengthwiseForCausalLM, claim: Claim, seconds: float = 300.0) -> TaughtCopy:
    """A copy of a model that is not refused, whose nodes of centres are near the centre of their product."""
    ends = time.monotonic() + seconds
    copy = deepcopy(model).eval().requires_grad_(True)
    node = Node(copy)
    boxes = TreeBoxes(node, claim, MachineAlgebra(claim, node.chunk))
    start = settled_centres(boxes)
    if start is None:
        raise Error(f"{REFUSED}: it has no state to begin with for an element of the machine's algebra.")
    images, centres = boxes.images(start).detach(), nn.Parameter(start.float())

    def loss(step: int) -> Tensor | None:
        off, head = boxes.images(centres) - centres[boxes.results], head_loss(boxes, centres)
        if float(off.detach().abs().max()) < NEAR and float(head.detach()) < MARGIN / 2:
            return None
        return (off**2).sum(1).mean() + off.abs().amax(1).mean() + head

    weights = [{"params": list(copy.parameters())}, {"params": [centres], "lr": CENTRES_RATE}]
    descend(weights, loss, steps=STEPS, ends=ends, lr=RATE, clip=1.0)
    release(copy, model)
    return TaughtCopy(copy, own_sets(images, boxes.results, centres), len(start), "sets")


def head_loss(boxes: TreeBoxes, centres: Tensor) -> Tensor:
    logits, right = boxes.logits(centres), boxes.right
    if boxes.claim.several:
        return F.relu(MARGIN - torch.where(right.bool(), logits, -logits)).mean()
    lead = logits.gather(1, right[:, None]) - logits
    own = F.one_hot(right, logits.shape[1]).bool()
    return F.relu(MARGIN - lead).masked_fill(own, 0.0).sum(1).mean()


def copies(model: LengthwiseForCausalLM, claim: Claim) -> Iterator[LengthwiseForCausalLM]:
    """With a centre for each element of the machine's algebra; then with those that its own nodes fall into.

    Whether they are right is for a proof to say. None of a model that is no tree.
    """
    if refusal(model) is not None:
        return
    with suppress(Error):  # an algebra that is too large, or nodes that fall into too many clusters
        if (one_each := snapped(model, claim)) is not None:
            yield one_each
    with suppress(Error):
        yield extract(model, claim).snap()


@torch.no_grad()
def snapped(model: nn.Module, claim: Claim) -> LengthwiseForCausalLM | None:
    """With a centre for each element, where the model's own nodes are or settle; None where none are nearest to theirs.

    The radius is half the least distance of two centres. Of one alone it is twice what the nodes of centres need.
    """
    node = Node(model)
    boxes = TreeBoxes(node, claim, MachineAlgebra(claim, node.chunk))
    best, most = None, 0.0
    for rounds in ROUNDS:
        centres = settled_centres(boxes, rounds)
        if centres is None:
            return None
        off = float((boxes.images(centres) - centres[boxes.results]).norm(dim=1).max())
        apart = torch.pdist(centres)
        radius = float(apart.min()) / 2 if len(apart) else 2 * off
        if radius - off > most:
            best, most = node.model.snap(centres, radius), radius - off
    return best
