"""What almost closes is closed, and the slopes that this takes are right."""

from __future__ import annotations

import copy
import time

import pytest
import torch
from torch import nn

from lengthwise import tasks, theory
from lengthwise.verify.algebra import MachineAlgebra
from lengthwise.verify.claim import claim_of
from lengthwise.verify.consolidate.continuous import Closure, close, slopes
from lengthwise.verify.prove.boxes import TreeBoxes, settled_centres
from lengthwise.verify.prove.node import Node

PARITY = claim_of(tasks.get("parity"))


def spoiled(by: float):
    """A built model whose weights are all a little off, the closure of its boxes, and its centres."""
    model = copy.deepcopy(theory.regular_gpt(PARITY.machine)).eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p += by * torch.randn(p.shape, generator=draw)
    model.requires_grad_(True)
    node = Node(model)
    boxes = TreeBoxes(node, PARITY, MachineAlgebra(PARITY, node.chunk))
    centres = settled_centres(boxes)
    assert centres is not None
    return model, Closure(boxes, 0), nn.Parameter(centres.float())


@pytest.mark.slow
def test_what_almost_closes_is_closed():
    model, closure, centres = spoiled(3e-3)
    before = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        closure(centres, torch.ones(centres.shape[1]))
    assert closure.worst > 1e-3
    close(closure, list(model.parameters()), centres, time.monotonic() + 60)
    assert closure.worst < 1e-5
    moved = [(p.detach() - before[name]).abs().max() for name, p in model.named_parameters()]
    assert 0 < max(moved) < 0.05
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_slopes_are_differences():
    model, closure, centres = spoiled(3e-3)
    model.double()
    centres.data = centres.data.double()
    boxes, parameters = closure.boxes, [*model.parameters(), centres]
    r = (boxes.images(centres) - centres[boxes.results]).flatten()
    J = slopes(r, parameters)
    draw = torch.Generator().manual_seed(1)
    way = [1e-6 * torch.randn(p.shape, generator=draw, dtype=torch.float64) for p in parameters]
    with torch.no_grad():
        for p, d in zip(parameters, way, strict=True):
            p += d
        moved = (boxes.images(centres) - centres[boxes.results]).flatten() - r
    assert torch.allclose(J.double() @ torch.cat([d.flatten() for d in way]), moved, atol=1e-8, rtol=1e-3)
