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


def snapped(model: nn.Module, claim: Claim) -> LengthwiseForCausalLM | None:
    """With a centre for each element, where the model's own nodes settle; None where two would be one.

    The radius is half the least distance of two centres. Of one alone it is twice what the nodes of centres need.
    """
    node = Node(model)
    boxes = TreeBoxes(node, claim, MachineAlgebra(claim, node.chunk))
    centres = settled_centres(boxes)
    if centres is None:
        return None
    apart = torch.pdist(centres)
    if len(apart):
        radius = float(apart.min()) / 2
    else:
        radius = 2 * float((boxes.images(centres) - centres[boxes.results]).norm(dim=1).max())
    return node.model.snap(centres, radius) if radius > 0 else None
