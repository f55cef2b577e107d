"""Proofs of stacks of automata: what is right is proved, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lengthwise import models, tasks, theory
from lengthwise.automata import Semiautomaton
from lengthwise.verify import Refuted, Unknown
from lengthwise.verify.certificate import make, weights
from lengthwise.verify.checker import Rejected, check
from lengthwise.verify.claim import claim_of
from lengthwise.verify.prove.cascade import NetworkPairs, cascade_of, prove_cascade

from .proposals import accepted

SUM = tasks.get("modular-sum", modulus=3)


def automaton(machine: Semiautomaton, answers, head="linear", noise=True, gap=3.0, near=0.0):
    """One layer whose first block is the machine; its second moves two entries about and is not read."""
    torch.manual_seed(0)
    Q, S, b = machine.num_states, machine.num_symbols, 6
    model = models.build(
        "block-lrnn", vocab_size=S, num_outputs=int(max(answers)) + 1, width=2 * b, blocks=2, block=b,
        variant="automaton", transition="linear", head=head,
    )  # fmt: skip
    inner = model.inner
    layer = inner.depth.layers[0]
    with torch.no_grad():
        u = layer.mixer_norm(inner.embedding.weight)
        target = gap * torch.rand(S, 2, b, b)
        target[:, 0, :, :Q] = 0.0
        for q, s in np.ndindex(Q, S):
            target[s, 0, machine.delta[q, s], q] = gap
        if near:
            target[0, 0, 1, 0] = gap - near  # by a 0 state 0 stays, and nearly goes to 1
        solve(layer.mixer.transition, u, target.flatten(1))
        layer.mixer.initial.zero_()
        layer.mixer.initial[0, machine.start] = 2.0
        if noise:
            layer.mixer.initial[1, :2] = torch.tensor([0.3, -0.2])
        states = torch.zeros(Q, 2 * b)
        states[torch.arange(Q), torch.arange(Q)] = 2.0
        solve(inner.head, inner.norm(states), 8 * torch.eye(model.num_outputs)[torch.as_tensor(answers)] - 4)
    return model.eval()


def solve(linear, x, y):
    """W x + c = y, with the smallest W."""
    wide = torch.cat([x, torch.ones(len(x), 1)], 1).double()
    found = torch.linalg.lstsq(wide, y.double(), driver="gelsd").solution.T.float()
    linear.weight.copy_(found[:, :-1])
    linear.bias.copy_(found[:, -1])


@pytest.mark.parametrize("name", ["parity", "modular-sum", "cycle-navigation", "modular-arithmetic", "tomita-5"])
def test_what_was_built_is_proved(name):
    task = tasks.get(name)
    built = theory.exact_classifier(name, theory.block_lrnn)
    proof = prove_cascade(built, claim_of(task), 20)
    assert isinstance(proof, dict), proof
    assert proof["margin"] == pytest.approx(4 if claim_of(task).several else 8, abs=0.1)
    assert len(proof["proof"]["pairs"]) <= task.machine.num_states


def test_parts_are_proved_together():
    clock = Semiautomaton([[(q + 1) % 6, q] for q in range(6)])
    built = theory.block_lrnn(clock, parts=[[q % 2 for q in range(6)], [q % 3 for q in range(6)]])
    proof = prove_cascade(built, claim_of(clock), 20)
    assert isinstance(proof, dict), proof
    assert proof["proof"]["entries"] == [[[0, 0], [1, 0]]]
    assert len(proof["proof"]["pairs"]) == 6


def test_an_automaton_is_proved_beside_its_noise():
    claim = claim_of(SUM)
    proof = prove_cascade(automaton(SUM.machine, claim.answers), claim, 20)
    assert isinstance(proof, dict), proof
    assert 0 < proof["margin"] < 8
    pairs = proof["proof"]["pairs"]
    assert pairs[0][0] == SUM.machine.start
    assert len(pairs) > 3
    assert len({tuple(pair) for pair in pairs}) == len(pairs)


def test_one_wrong_transition_is_refuted_by_a_shortest_word():
    delta = SUM.machine.delta.copy()
    delta[2, 1] = 2  # 2 + 1 is 2
    wrong = automaton(Semiautomaton(delta), claim_of(SUM).answers)
    verdict = prove_cascade(wrong, claim_of(SUM), 20)
    assert isinstance(verdict, Refuted)
    assert len(verdict.word) == 2
    assert int(wrong(torch.tensor([verdict.word]))[0, -1].argmax()) == verdict.said
    assert claim_of(SUM).right(verdict.word) == verdict.right


def test_an_argmax_within_rounding_is_never_proved():
    claim = claim_of(SUM)
    model = automaton(SUM.machine, claim.answers, noise=False, near=1e-5)
    words = torch.randint(3, (32, 50), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert (model(words).argmax(-1) == SUM.answer(words)).all()  # here, today
    assert "an argmax of layer 0 that moves an entry is not decided" in accepted(prove_cascade, model, claim)


def test_a_column_where_nothing_lies_needs_no_gap():
    claim = claim_of(SUM)
    model = automaton(SUM.machine, claim.answers, noise=False)
    transition = model.inner.depth.layers[0].mixer.transition
    with torch.no_grad():
        transition.weight.view(2, 6, 6, -1)[:, :, 5] = 0
        transition.bias.view(2, 6, 6)[:, :, 5] = 0
    assert isinstance(prove_cascade(model, claim, 20), dict)


def test_an_answer_within_rounding_is_never_proved():
    claim = claim_of(SUM)
    model = automaton(SUM.machine, claim.answers, noise=False)
    with torch.no_grad():
        head = model.inner.head
        head.weight[1], head.bias[1] = head.weight[0], head.bias[0] - 1e-7
        head.bias[2] -= 20
    assert isinstance(accepted(prove_cascade, model, claim), str)


def test_limits_say_how_they_are_raised(monkeypatch):
    claim = claim_of(SUM)
    model = automaton(SUM.machine, claim.answers)
    monkeypatch.setenv("LENGTHWISE_MAX_CASCADE_STATES", "3")
    verdict = prove_cascade(model, claim, 20)
    assert isinstance(verdict, Unknown)
    assert "more than 3 states are reachable" in verdict.why
    assert "LENGTHWISE_MAX_CASCADE_STATES" in verdict.why
    monkeypatch.delenv("LENGTHWISE_MAX_CASCADE_STATES")
    assert "the time was over" in str(prove_cascade(model, claim, 0))


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (models.build("lstm", vocab_size=2, num_outputs=2, width=8), "no block-diagonal linear RNNs"),
        (models.build("regular-gpt", vocab_size=2, num_outputs=2, width=8, heads=2), "no stack of layers"),
        (models.build("block-lrnn", vocab_size=2, num_outputs=2, width=8), "norm than p = 1"),
        (models.build("block-lrnn", vocab_size=2, num_outputs=2, width=8, normalisation="orthogonal", inputs="none"),
         "normalisation must be one-hot"),
        (models.build("block-lrnn", vocab_size=2, num_outputs=2, width=8, variant="automaton").double(), "float32"),
        (torch.nn.Linear(2, 2), "no stack of layers"),
    ],
)  # fmt: skip
def test_what_is_no_cascade_is_told_why(model, why):
    said = prove_cascade(model, claim_of(tasks.get("parity")), 5)
    assert isinstance(said, str)
    assert why in said


def test_what_is_never_asked_again_is_not_visited():
    """After two operators in a row nothing is asked any more, whatever the model does then."""
    task = tasks.get("modular-arithmetic", modulus=2)
    claim = claim_of(task)
    assert not claim.asked.all()
    built = theory.exact_classifier("modular-arithmetic", theory.block_lrnn)
    wide = claim_of(tasks.get("modular-arithmetic"))
    proof = prove_cascade(built, wide, 20)
    assert isinstance(proof, dict)
    assert len(proof["proof"]["pairs"]) < wide.machine.num_states


def test_exploring_agrees_with_running():
    """On all words of six symbols, the states that the model's own matrices lead to are among those that were found."""
    torch.manual_seed(5)
    model = models.build(
        "block-lrnn", vocab_size=2, num_outputs=1, width=8, block=4, layers=2, variant="automaton"
    ).eval()
    network = cascade_of(model)
    assert not isinstance(network, str)
    claim = claim_of(Semiautomaton([[0, 0]], accepting=set()))  # its one output is right
    reached = NetworkPairs(model, network, claim, float("inf"))
    reached.look()
    words = torch.cartesian_prod(*[torch.arange(2)] * 6)
    values = []
    hooks = [
        layer.mixer.register_forward_hook(lambda _, given, y: values.append(y[0])) for layer in model.inner.depth.layers
    ]
    with torch.no_grad():
        model(words)
    for hook in hooks:
        hook.remove()
    seen = {tuple(torch.cat(each).numpy().round(4)) for each in zip(*(v.flatten(0, 1) for v in values), strict=True)}
    layers = zip(network.layers, reached.states, strict=True)
    states = [layer.read(state.rows.astype(int)).mid.astype(np.float32) for layer, state in layers]
    pairs = reached.pairs.rows
    listed = {tuple(np.concatenate([states[k][pair[1 + k]] for k in range(2)]).round(4)) for pair in pairs}
    assert seen <= listed


def test_the_checker_accepts_what_is_proved_and_no_less():
    claim = claim_of(SUM)
    model = automaton(SUM.machine, claim.answers)
    proof = prove_cascade(model, claim, 20)
    assert isinstance(proof, dict), proof
    report = check(make(model.inner, claim, proof), weights(model.inner))
    assert report.margin > 0
    proof["proof"]["pairs"].pop()
    with pytest.raises(Rejected, match="not listed"):
        check(make(model.inner, claim, proof), weights(model.inner))
