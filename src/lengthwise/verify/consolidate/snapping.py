"""Copies of a tree in which every node is replaced by the nearest of its centres.

A proof by boxes wants what is near a centre to come nearer. This wants only that the node of any tuple of centres is
nearer to the centre of the product than to any other: the next node is then made of that centre, whatever was off.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import torch
from torch import nn

from ...errors import Error
from ...models import LengthwiseForCausalLM
from ..algebra import MachineAlgebra
from ..claim import Claim
from ..extraction import extract
from ..prove.boxes import TreeBoxes, refusal, settled_centres
from ..prove.node import Node

ROUNDS = (0, 1, 4, 40)
"""How often nodes of centres are centres in turn. What does not come nearer goes away from where it was taught to."""


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
