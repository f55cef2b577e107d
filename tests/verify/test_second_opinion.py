"""Networks in ball arithmetic are those that torch runs, and an opinion is given of what a proof says, and no more."""

from __future__ import annotations

import copy
import sys

import numpy as np
import pytest
import torch

from lengthwise import Error
from lengthwise.models import LengthwiseForCausalLM, presets
from lengthwise.verify import certificate, exact_network
from lengthwise.verify.checker import Rejected
from lengthwise.verify.second_opinion import Conditions, opinion_on

from .checker.conftest import codes, recurrence, snapped, tree

flint = pytest.importorskip("flint")


@pytest.fixture(scope="module")
def made():
    known = {name: make("parity") for name, make in (("boxes", tree), ("snapped", snapped), ("codes", codes))}
    return lambda name: known[name]


def tree_of(exact, word):
    """The last node of a word, group after group."""
    C, nodes = exact.mixer["chunk"], [exact.leaf(s) for s in word]
    while True:
        first = len(nodes) % C or C
        nodes = [exact.node(nodes[max(0, end - C) : end]) for end in range(first, len(nodes) + 1, C)]
        if exact.nodes:
            picked = [[max(range(len(z)), key=lambda i, z=z: float(z[i])) for z in exact.choices(x)] for x in nodes]
            nodes = [exact.code(choices) for choices in picked]
        if len(nodes) == 1:
            return nodes[0]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "post", "activation": "gelu", "chunk": 3},
        {"missing": "drop", "activation": "relu", "heads": 4},
        {"nodes": "discrete", "groups": 3, "codes": 4},
    ],
)
def test_exact_networks_are_those_that_torch_runs(options):
    torch.manual_seed(0)
    model = LengthwiseForCausalLM(presets.regular_gpt(3, 4, width=8, **{"heads": 2, **options})).eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.4)
    weights = certificate.weights(model)
    exact, model = exact_network.ExactTree(certificate.deciding(model), weights), model.double()
    with flint.ctx.workprec(exact_network.BITS), torch.no_grad():
        for word in ([0], [1, 2], [2, 0, 1], [0, 1, 2, 2, 1], [1, 1, 0, 2, 1, 0, 2]):
            said = model(torch.tensor([word]), logits_to_keep=1).logits[0, -1].numpy()
            logits = exact.head(tree_of(exact, word))
            np.testing.assert_allclose([float(x) for x in logits], said, rtol=1e-10, atol=1e-12)
            assert all(float(x.rad()) < 1e-28 for x in logits)


@pytest.mark.parametrize(("name", "gap"), [("boxes", 1e-3), ("snapped", 0.01), ("codes", 8.0)])
def test_an_opinion_on_what_is_true(made, name, gap):
    it = made(name)
    opinion = opinion_on(it.certificate, it.weights)
    # Two nodes of one symbol each after a pad and alone, as many of sets, and the head on both sets.
    assert (opinion.evaluated, opinion.conditions) == (14, 14)
    assert opinion.gap == pytest.approx(gap, rel=1e-3)
    assert opinion.centres == (name == "boxes")
    assert ("at the centres of its boxes" in str(opinion)) == opinion.centres
    assert str(opinion).startswith("second opinion: all 14 conditions hold")


def test_of_many_conditions_some_are_drawn_and_it_says_so(made):
    it = made("codes")
    opinion = opinion_on(it.certificate, it.weights, most=5)
    assert (opinion.evaluated, opinion.conditions) == (5, 14)
    assert str(opinion).startswith("second opinion: 5, drawn at random, of 14 conditions hold")
    assert opinion.to_json()["bits"] == 128


def test_what_is_false_is_rejected(made):
    it = made("codes")
    swapped = copy.deepcopy(it.certificate)
    first, second = swapped["proof"]["codes"]
    first["code"], second["code"] = second["code"], first["code"]
    with pytest.raises(Rejected, match="not in a listed set of the product"):
        opinion_on(swapped, it.weights)
    weights = {**it.weights, "head.weight": it.weights["head.weight"][::-1].copy()}
    weights["head.bias"] = it.weights["head.bias"][::-1].copy()
    with pytest.raises(Rejected, match="the answer on set 0 is not decided: its gap is -"):
        opinion_on(it.certificate, weights)
    it = made("boxes")
    box = copy.deepcopy(it.certificate)
    for entry in box["proof"]["boxes"]:
        entry["centre"] = [x + 0.01 for x in entry["centre"]]
    with pytest.raises(Rejected, match=r"is not decided: its gap is -0\.009"):
        opinion_on(box, it.weights)


@pytest.mark.parametrize("name", ["codes", "snapped"])
def test_an_enclosure_without_the_exact_value_is_rejected(made, name, monkeypatch):
    it = made(name)
    right = Conditions(it.certificate, it.weights).checkers.head

    def shifted(self, x):
        value = right(x)
        value.range = value.range.__class__(value.range.lo + 1e-3, value.range.hi + 1e-3)
        return value

    monkeypatch.setattr("lengthwise.verify.checker.network.Tree.head", shifted)
    with pytest.raises(Rejected, match=r"the answer on set 0: .* is outside of"):
        opinion_on(it.certificate, it.weights)


def test_a_checker_that_is_too_sure_is_rejected(made, monkeypatch):
    it = made("codes")
    monkeypatch.setattr(
        "lengthwise.verify.second_opinion.chosen", lambda z, groups: (np.zeros((1, groups)), np.array([8.1]))
    )
    with pytest.raises(Rejected, match=r"decided by 8, and the checker is sure of 8\.1"):
        opinion_on(it.certificate, it.weights)


def test_it_says_what_it_needs(made, monkeypatch):
    with pytest.raises(Error, match="given on trees"):
        opinion_on(recurrence("rnn").certificate, {})
    monkeypatch.setitem(sys.modules, "flint", None)
    with pytest.raises(Error, match=r"pip install 'lengthwise\[exact\]'"):
        opinion_on(made("codes").certificate, made("codes").weights)
