"""Networks in ball arithmetic are those that torch runs, and an opinion is given of what a proof says, and no more."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from lengthwise import Error, models
from lengthwise.models import LengthwiseForCausalLM, presets
from lengthwise.verify import certificate
from lengthwise.verify.checker import Rejected, check
from lengthwise.verify.checker.cascade import Automata
from lengthwise.verify.checker.points import Point

from ..checker.conftest import cascade, codes, recurrence, snapped, tree
from .networks import BITS, ExactCascade, ExactRecurrence, ExactTree
from .opinion import Conditions, opinion_on

flint = pytest.importorskip("flint")


@pytest.fixture(scope="module")
def made():
    known = {name: make("parity") for name, make in (("boxes", tree), ("snapped", snapped), ("codes", codes))}
    return lambda name: known[name]


WORD = [2, 0, 1, 1, 2, 0, 0]


def exact_of(model):
    """The model with random weights, in double precision, and what is exact of it."""
    torch.manual_seed(0)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.6)
    kind = ExactCascade if "block-lrnn" in str(model.config.mixer) else ExactRecurrence
    return model.eval().double(), kind(certificate.deciding(model), certificate.weights(model))


def said(model, word):
    with torch.no_grad():
        return model(torch.tensor([word]), logits_to_keep=1).logits[0, -1].numpy()


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
    exact, model = ExactTree(certificate.deciding(model), weights), model.double()
    with flint.ctx.workprec(BITS), torch.no_grad():
        for word in ([0], [1, 2], [2, 0, 1], [0, 1, 2, 2, 1], [1, 1, 0, 2, 1, 0, 2]):
            said = model(torch.tensor([word]), logits_to_keep=1).logits[0, -1].numpy()
            logits = exact.head(tree_of(exact, word))
            np.testing.assert_allclose([float(x) for x in logits], said, rtol=1e-10, atol=1e-12)
            assert all(float(x.rad()) < 1e-28 for x in logits)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_exact_recurrences_are_those_that_torch_runs(cell, layers):
    model, exact = exact_of(models.build(cell, vocab_size=3, num_outputs=4, width=5, layers=layers).inner)
    with flint.ctx.workprec(BITS):
        state = exact.vector(np.zeros(layers * exact.parts * 5))
        for t, symbol in enumerate(WORD):
            state = exact.step(state, symbol)
            np.testing.assert_allclose(list(map(float, exact.last(state))), said(model, WORD[: t + 1]), rtol=1e-10)
    assert all(float(x.rad()) < 1e-25 for x in state)


@pytest.mark.parametrize("options", [{}, {"layers": 2, "block": 4}, {"transition": "two-layer"}])
def test_exact_automata_are_those_that_torch_runs(options):
    built = models.build("block-lrnn", vocab_size=3, num_outputs=4, width=8, variant="automaton", **options).inner
    model, exact = exact_of(built)
    places = [[j for _, j, _ in entries] for entries in exact.entries]
    with flint.ctx.workprec(BITS):
        for t, symbol in enumerate(WORD):
            x = exact.leaf(symbol)
            for k in exact.layers:
                M = exact.functions(k, x)
                columns = [exact.column(k, M, i, at) for (i, _, _), at in zip(exact.entries[k], places[k], strict=True)]
                places[k] = [max(range(len(z)), key=lambda r, z=z: float(z[r])) for z in columns]
                x = exact.read(k, x, places[k])
            np.testing.assert_allclose(list(map(float, exact.head(x))), said(model, WORD[: t + 1]), rtol=1e-10)


@pytest.mark.parametrize(
    ("kept", "conditions"),
    [
        # Steps from each of four sets by both symbols, and the head on the three that are come to.
        (lambda: recurrence("rnn"), 11),
        pytest.param(lambda: recurrence("rnn", 2), 11, marks=pytest.mark.slow),
        pytest.param(lambda: recurrence("gru"), 11, marks=pytest.mark.slow),
        (lambda: recurrence("lstm"), 11),
        (lambda: cascade("parity"), 4),
        (lambda: cascade("cycle-navigation"), 15),
    ],
    ids=["rnn", "rnn of 2 layers", "gru", "lstm", "cascade", "cascade of 5"],
)
def test_an_opinion_on_proofs_over_time(kept, conditions):
    it = kept()
    opinion = opinion_on(it.certificate, it.weights)
    assert opinion.evaluated == opinion.conditions == conditions
    assert opinion.gap > 0
    assert opinion.centres == (it.certificate["kind"] == "recurrence-boxes")
    checked = check(it.certificate, it.weights)
    assert opinion.conditions == checked.conditions if opinion.centres else opinion.gap >= checked.margin
    assert opinion_on(it.certificate, it.weights, 3).evaluated == 3


def test_a_step_out_of_its_box_is_rejected():
    it = recurrence("gru")
    moved = copy.deepcopy(it.certificate)
    for entry in moved["proof"]["sets"]:
        entry["centre"] = [x + 0.01 for x in entry["centre"]]
    with pytest.raises(Rejected, match="second opinion: the checker has the step from set 0 by symbol 0 in no set"):
        opinion_on(moved, it.weights)


def test_a_checker_that_is_wrong_over_time_is_rejected(monkeypatch):
    it, stack = recurrence("lstm"), cascade("parity")
    with monkeypatch.context() as patch:
        patch.setattr(ExactRecurrence, "sigmoid", lambda self, x: [1 / (1 + (-a).exp()) + 1e-2 for a in x])
        with pytest.raises(Rejected, match=r"the step from set 0 by symbol 0: .* is outside of"):
            opinion_on(it.certificate, it.weights)
    with monkeypatch.context() as patch:
        right = ExactCascade.head
        patch.setattr(ExactCascade, "head", lambda self, x: [z + 1e-2 for z in right(self, x)])
        with pytest.raises(Rejected, match=r"the answer: .* is outside of"):
            opinion_on(stack.certificate, stack.weights)
    with monkeypatch.context() as patch:
        patch.setattr(ExactCascade, "column", lambda self, k, M, block, place: [self.arb(1), self.arb(0)])
        with pytest.raises(Rejected, match="the checker has an entry of layer 0 go elsewhere"):
            opinion_on(stack.certificate, stack.weights)
    with monkeypatch.context() as patch:
        right_functions = Automata.functions
        patch.setattr(Automata, "functions", lambda self, x: (right_functions(self, x)[0], np.full((1, 1, 2), 1.5)))
        with pytest.raises(Rejected, match=r"argmax of layer 0 is decided by 1, and the checker is sure of 1\.5"):
            opinion_on(stack.certificate, stack.weights)
    unlisted = copy.deepcopy(stack.certificate)
    unlisted["proof"]["pairs"] = unlisted["proof"]["pairs"][:1]
    with pytest.raises(Rejected, match="leads to a pair that is not listed"):
        opinion_on(unlisted, stack.weights)


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
        logits = right(x)
        return Point.at(logits.c + 1e-3, logits.radius)

    monkeypatch.setattr("lengthwise.verify.checker.tree.Tree.head", shifted)
    with pytest.raises(Rejected, match=r"the answer on set 0: .* is outside of"):
        opinion_on(it.certificate, it.weights)


def test_a_checker_that_is_too_sure_is_rejected(made, monkeypatch):
    it = made("codes")
    monkeypatch.setattr(Conditions.__module__ + ".chosen", lambda z, groups: (np.zeros((1, groups)), np.array([8.1])))
    with pytest.raises(Rejected, match=r"decided by 8, and the checker is sure of 8\.1"):
        opinion_on(it.certificate, it.weights)


def test_it_says_which_kinds_it_knows():
    with pytest.raises(Error, match=r"given on proofs by tree-codes, .* and this one is a sample"):
        opinion_on({**recurrence("rnn").certificate, "kind": "sample"}, {})
