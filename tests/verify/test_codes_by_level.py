"""A discrete tree is followed level by level where the codes of all its nodes, taken together, prove nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lengthwise import models, tasks
from lengthwise.models import presets
from lengthwise.verify import Refuted, Unknown, certificate
from lengthwise.verify.algebra import Conditions, MachineAlgebra
from lengthwise.verify.checker import Rejected, check
from lengthwise.verify.checker.claim import StatedClaim
from lengthwise.verify.claim import claim_of
from lengthwise.verify.consolidate.closure import Closure, close
from lengthwise.verify.prove import codes
from lengthwise.verify.theorem import regulargpt
from tests.verify.checker.conftest import resealed
from tests.verify.second_opinion.opinion import opinion_on

CLAIM = claim_of(tasks.get("tomita-5"))
ALGEBRA = MachineAlgebra(CLAIM, chunk=2)
ONE, OTHER = (int(ALGEBRA.numbers(ALGEBRA.leaves[[s]])[0]) for s in range(2))
"""The elements of words of one symbol, and of all of odd length."""


def taught(wrong: bool = False):
    """Tomita 5's tree, with one code for all words of odd length: none is accepted, whatever pairs of symbols follow.

    `wrong`: two pairs of different symbols are taken for one.
    """
    even = sorted({0, 1, 2, 3} - {ONE, OTHER})
    listed = torch.tensor([[even.index(i) if i in even else 2] for i in range(4)])
    taps, results = ALGEBRA.conditions()
    element = taps - 1 - len(ALGEBRA.leaves)
    of_trees = ~np.isin(element[:, 1], (ONE, OTHER))  # only at the beginning of a word symbols lack
    if wrong:
        results = results.copy()
        results[(element == even[1]).all(1)] = even[1]
    conditions = Conditions(taps[of_trees], results[of_trees])
    config = presets.regular_gpt(2, 2, width=16, activation="relu", nodes="discrete", groups=1, codes=3)
    torch.manual_seed(0)
    model = models.LengthwiseForCausalLM(config)
    closure = Closure(ALGEBRA, listed, conditions)
    assert close(model, closure, rounds=(2000,), lr=3e-3).closed
    return model.eval()


def tomita_5_by_level():
    """A certificate by levels, and the weights that it is about."""
    model = taught()
    proof = codes.prove_codes(model, CLAIM, 60)
    return certificate.accepted(model, CLAIM, proof, "given"), certificate.weights(model)


@pytest.fixture(scope="module")
def model():
    return taught()


@pytest.fixture(scope="module")
def proof(model):
    return codes.prove_codes(model, CLAIM, 60)


def test_one_code_for_words_that_no_tree_tells_apart_is_proved(model, proof):
    together = codes.Exploration(codes.CodedNode(model), 2, CLAIM, 60).verdict()
    assert "one code stands for words" in str(together)
    assert isinstance(proof, dict), proof
    stated = certificate.accepted(model, CLAIM, proof, "given")
    report = check(stated, certificate.weights(model))
    assert report.conditions > len(proof["proof"]["codes"])
    opinion = opinion_on(stated, certificate.weights(model))
    assert opinion.conditions == report.conditions


def test_it_is_right_on_every_short_string(model):
    for length in range(1, 11):
        words = torch.cartesian_prod(*[torch.arange(2)] * length).reshape(-1, length)
        right = CLAIM.answers[CLAIM.machine.run(words)[:, -1].numpy()]
        with torch.no_grad():
            assert (model(words).logits[:, -1].argmax(-1).numpy() == right).all()


@pytest.mark.parametrize("what", ["a code less", "another level", "another return", "no level", "lacks", "element"])
def test_what_is_listed_otherwise_is_rejected(model, proof, what):
    stated = certificate.accepted(model, CLAIM, proof, "given")
    listed = [dict(each) for each in stated["proof"]["codes"]]
    told = {**stated["proof"], "codes": listed}
    last = next(i for i, each in reversed(list(enumerate(listed))) if not each["lacking"])
    if what == "a code less":
        del listed[last]
    elif what == "another level":
        listed[last]["level"] += 1
    elif what == "another return":
        told["returns"] = 7
    elif what == "no level":
        listed[:] = [{name: each[name] for name in ("element", "code")} for each in listed]
    elif what == "lacks":
        listed[last]["lacking"] = True
    else:
        listed[last]["element"] = next(
            i for i, to in enumerate(told["elements"]) if len(set(to)) > 1 and i != listed[last]["element"]
        )
    with pytest.raises(Rejected):
        check(resealed({**stated, "proof": told}), certificate.weights(model))


def test_maps_hold_in_states_that_the_start_does_not_reach(model, proof):
    """A map may lead to a state that is alike to the right one, so what the next does there matters, reached or not."""
    stated = certificate.accepted(model, CLAIM, proof, "given")
    claim, elements = stated["claim"], stated["proof"]["elements"]
    twin = len(claim["delta"])  # of state 1: nothing leads there
    claim = {
        **claim,
        **{name: [*claim[name], claim[name][1]] for name in ("delta", "answers", "asked")},
    }
    for other, accepted in ((1, True), (CLAIM.machine.start, False)):
        wider = [[*to, to[other]] for to in elements]
        told = resealed({**stated, "claim": claim, "proof": {**stated["proof"], "elements": wider}})
        assert twin not in {to for row in wider for to in row}
        for ask in (check, opinion_on):
            if accepted:
                assert ask(told, certificate.weights(model)).conditions
            else:
                with pytest.raises(Rejected, match="product of their maps"):
                    ask(told, certificate.weights(model))


def test_a_wrong_level_refutes_by_its_shortest_word():
    wrong = taught(wrong=True)
    verdict = codes.prove_codes(wrong, CLAIM, 60)
    assert isinstance(verdict, Refuted)
    assert len(verdict.word) == 4
    assert wrong(torch.tensor([verdict.word])).logits[0, -1].argmax() == verdict.said
    assert verdict.right == CLAIM.right(verdict.word) != verdict.said


def test_no_time_and_no_room_say_so(model, monkeypatch):
    out_of_time = codes.prove_codes(model, CLAIM, 0.0)
    assert isinstance(out_of_time, Unknown)
    assert "levels of trees were followed, and the time was over" in out_of_time.why
    monkeypatch.setenv("LENGTHWISE_MAX_PROOF_NODES", "5")
    assert "LENGTHWISE_MAX_PROOF_NODES" in codes.prove_codes(model, CLAIM, 60).why


def test_no_theorem_is_written_of_it(model, proof):
    stated = certificate.accepted(model, CLAIM, proof, "given")
    assert "this proof lists levels" in str(regulargpt.refusal(stated))


def test_states_are_alike_where_no_so_many_symbols_tell_them_apart():
    stated = StatedClaim(CLAIM.to_json())
    by_one, by_two = stated.alike(1), stated.alike(2)
    assert len(set(by_one.tolist())) == 4
    odd = [int(ALGEBRA.elements[each][CLAIM.machine.start]) for each in (ONE, OTHER)]
    assert by_two[odd[0]] == by_two[odd[1]]
    assert len(set(by_two.tolist())) == 3
