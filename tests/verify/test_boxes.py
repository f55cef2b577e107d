"""Boxes close around what is right at every length, and around nothing else."""

from __future__ import annotations

import copy
from itertools import chain, repeat
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lengthwise import models, tasks, theory
from lengthwise.automata import Semiautomaton
from lengthwise.verify import Unknown, certificate
from lengthwise.verify.algebra import MachineAlgebra
from lengthwise.verify.checker import Rejected, check
from lengthwise.verify.checker.tree import Tree
from lengthwise.verify.claim import Claim, claim_of
from lengthwise.verify.prove import boxes as boxes_module
from lengthwise.verify.prove.boxes import (
    TreeBoxes,
    explored,
    grow,
    off_centre,
    prove_tree_boxes,
)
from lengthwise.verify.prove.node import Node

from .proposals import accepted

PARITY = claim_of(tasks.get("parity"))


@pytest.fixture(scope="module")
def built():
    model = theory.regular_gpt(PARITY.machine).eval()
    proof = prove_tree_boxes(model, PARITY)
    assert isinstance(proof, dict), proof
    return model, proof


def test_sets_that_had_too_little_time_say_so(built, monkeypatch):
    """Time is up after the leaves: two elements, at each of which the clock was read."""
    clock = chain([0.0, 0.0], repeat(1.0))
    monkeypatch.setattr(boxes_module.time, "monotonic", lambda: next(clock))
    node = Node(built[0])
    unknown = explored(node, MachineAlgebra(PARITY, node.chunk), near=0.2, ends=0.5, levels=1, period=0)
    assert "time was up after 2 nodes" in str(unknown)


def boxes_of(proof):
    [name] = proof["proof"].keys() - {"elements"}
    return tuple(torch.tensor([b[k] for b in proof["proof"][name]], dtype=torch.float64) for k in ("centre", "radius"))


def test_a_built_model_is_proved_in_float32(built):
    _, proof = built
    assert (proof["kind"], proof["inference"], proof["arithmetic"]) == ("tree-boxes", "raw", "float32")
    assert proof["margin"] > 0.1
    assert sorted(proof["proof"]["elements"]) == [[0, 1], [1, 0]]


@pytest.mark.parametrize("arithmetic", ["float32", "float64"])
def test_the_checker_accepts_the_proof_and_none_with_smaller_boxes(built, arithmetic):
    model, proof = built[0], prove_tree_boxes(built[0], PARITY, arithmetic=arithmetic)
    inner = getattr(model, "inner", model)
    report = check(certificate.make(inner, PARITY, proof, "built"), certificate.weights(inner))
    assert report.margin > 0.1
    for box in proof["proof"]["boxes"]:
        box["radius"] = [1e-6 * r for r in box["radius"]]
    with pytest.raises(Rejected):
        check(certificate.make(inner, PARITY, proof, "built"), certificate.weights(inner))


def test_the_conditions_hold_when_they_are_computed_again(built):
    model, proof = built
    centres, radii = boxes_of(proof)
    node = Node(model)
    boxes = TreeBoxes(node, MachineAlgebra(PARITY, node.chunk))
    network = certificate.network_of(node.model, Tree, "float32")
    assert (boxes.needed(network, centres, radii) <= radii).all()
    assert boxes.margin(network, centres, radii) == proof["margin"]
    assert not (boxes.needed(network, centres, radii * 1e-9) <= radii * 1e-9).all()


def test_nodes_of_words_lie_in_the_box_of_their_element(built):
    """100,000 nodes in float32: pairs of nodes of random words, whose boxes the proof names."""
    model, proof = built
    centres, radii = boxes_of(proof)
    node, elements = Node(model), [tuple(e) for e in proof["proof"]["elements"]]
    flips, known = torch.tensor([elements.index((0, 1)), elements.index((1, 0))]), torch.tensor([0, 1])
    draw = torch.Generator().manual_seed(0)
    leaves = node.leaves(2).detach()
    x, parity = leaves, known
    for _ in range(8):
        a, b = (torch.randint(len(x), (12_500,), generator=draw) for _ in range(2))
        with torch.no_grad():
            x, parity = node.of(torch.stack([x[a], x[b]], 1)), parity[a] ^ parity[b]
        box = flips[parity]
        assert ((x.double() - centres[box]).abs() <= radii[box]).all()


@pytest.mark.parametrize("change", ["head", "weights", "embedding", "claim"])
def test_models_that_are_wrong_are_not_proved(built, change):
    """One bit of a wrong answer, or a machine that is another."""
    model, claim = copy.deepcopy(built[0]), PARITY
    inner = getattr(model, "inner", model)
    with torch.no_grad():
        if change == "head":
            inner.head.weight.copy_(inner.head.weight.flip(0))
            if inner.head.bias is not None:
                inner.head.bias.copy_(inner.head.bias.flip(0))
        elif change == "weights":
            inner.depth.layers[0].down.weight.mul_(0.5)
        elif change == "embedding":
            inner.embedding.weight.copy_(inner.embedding.weight.flip(0))
        else:
            delta = [[0, 1], [1, 1]]  # once a one was read, for ever
            claim = Claim(Semiautomaton(delta, accepting={1}), PARITY.answers, PARITY.asked)
    assert not isinstance(accepted(prove_tree_boxes, model, claim), dict)


@pytest.mark.parametrize("epsilon", [1e-2, 1e-6])
def test_a_model_that_is_wrong_by_epsilon_is_not_proved(built, epsilon):
    """The head is moved until, at the centre of a box, the wrong output leads by epsilon."""
    model, proof = built
    centres, _ = boxes_of(proof)
    shifted = copy.deepcopy(model)
    inner = getattr(shifted, "inner", shifted)
    with torch.no_grad():
        x = inner.norm(centres.float())
        logits = x @ inner.head.weight.T + (0 if inner.head.bias is None else inner.head.bias)
        right = torch.tensor([0 if e == [0, 1] else 1 for e in proof["proof"]["elements"]])
        lead = (logits.gather(1, right[:, None]) - logits.gather(1, 1 - right[:, None]))[:, 0]
        if inner.head.bias is None:
            inner.head.bias = torch.nn.Parameter(torch.zeros(2))
        worst = int(right[lead.argmin()])
        inner.head.bias[worst] -= lead.min() + epsilon
    assert not isinstance(accepted(prove_tree_boxes, shifted, PARITY), dict)


def test_several_sets_an_element_are_a_proof_and_none_with_a_set_less(built, monkeypatch):
    """Weights are moved until equal words' nodes lie apart, and those apart are in sets of their own."""
    monkeypatch.setattr(boxes_module, "WAYS", ((0.02, 4, 2),))
    model = copy.deepcopy(built[0])
    torch.manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.01 * torch.randn_like(p))
    proof, inner = prove_tree_boxes(model, PARITY), getattr(model, "inner", model)
    assert isinstance(proof, dict), proof
    boxes = proof["proof"]["boxes"]
    assert {box["level"] for box in boxes} == {0, 1, 2, 3}
    assert {box["lacking"] for box in boxes} == {False, True}
    assert proof["proof"]["returns"] == 2
    assert check(certificate.make(inner, PARITY, proof, "built"), certificate.weights(inner)).margin > 0.1
    tampered = [
        [*boxes[:b], *changed, *boxes[b + 1 :]] for b in range(0, len(boxes), 4) for changed in others(boxes[b])
    ]
    for parts in [{"boxes": each} for each in tampered] + [{"returns": level} for level in (0, 1, 4)]:
        changed = {**proof, "proof": {**proof["proof"], **parts}}
        with pytest.raises(Rejected):
            check(certificate.make(inner, PARITY, changed, "built"), certificate.weights(inner))


def others(box):
    """Nothing instead of it, or a box of another element, level or kind."""
    of = ({"element": 1 - box["element"]}, {"level": box["level"] + 1}, {"lacking": not box["lacking"]})
    return [[], *([{**box, **changed}] for changed in of)]


def test_what_is_not_bounded_closes_no_box():
    assert torch.isinf(off_centre(np.full((1, 2), -np.inf), np.full((1, 2), np.inf), torch.zeros(1, 2))).all()


def test_untrained_models_are_not_proved():
    torch.manual_seed(0)
    model = models.build("regular-gpt", vocab_size=2, num_outputs=2, width=8, heads=2).eval()
    assert not isinstance(accepted(prove_tree_boxes, model, PARITY, 2), dict)


def test_other_models_say_why():
    model = models.build("lstm", vocab_size=2, num_outputs=2)
    assert "RegularGPT" in str(prove_tree_boxes(model, PARITY))


def test_radii_grow_until_they_hold_or_say_that_they_do_not():
    start = torch.zeros(1, 2)
    half = grow(lambda r: 0.5 * r + 0.01, start, float("inf"), lambda r: float("inf"))
    assert isinstance(half, torch.Tensor)
    assert (0.5 * half + 0.01 <= half).all()
    assert isinstance(grow(lambda r: 1.01 * r + 0.01, start, float("inf"), lambda r: float("inf")), Unknown)
    assert isinstance(grow(lambda r: r * torch.inf + 0.01, start, float("inf"), lambda r: float("inf")), Unknown)


def test_a_centre_settles_halfway_between_what_its_conditions_make():
    images = torch.tensor([[1.0, 0.0], [3.0, 8.0], [2.0, 2.0], [5.0, 5.0]])
    boxes = SimpleNamespace(results=torch.tensor([0, 0, 0, 1]), images=lambda centres: images)
    assert boxes_module.settled(boxes, torch.zeros(2, 2)).tolist() == [[2.0, 4.0], [5.0, 5.0]]
