"""A discrete tree is followed level by level where the codes of all its nodes, taken together, prove nothing."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from lengthwise import models, tasks
from lengthwise.models import presets
from lengthwise.verify import Refuted, Unknown, certificate
from lengthwise.verify.algebra import Conditions, MachineAlgebra
from lengthwise.verify.checker import Rejected, check
from lengthwise.verify.checker.claim import StatedClaim
from lengthwise.verify.claim import claim_of, minimal, without_start
from lengthwise.verify.consolidate.closure import Closure, close
from lengthwise.verify.consolidate.compiling import compile_machine
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
    assert (close(model, closure, rounds=(2000,), lr=3e-3) > 0).all()
    return model.eval()


PLUS = minimal(claim_of(tasks.get("modular-arithmetic", modulus=2, leading_plus=True)))
"""Words begin with a +, so "* 1 + 1" and "+ 0 + 1" differ only where one of them cannot stand."""


def tomita_5_by_level():
    """A certificate by levels, and the weights that it is about."""
    model = taught()
    proof = codes.prove_codes(model, CLAIM, 60)
    return certificate.accepted(model, CLAIM, proof, "given"), certificate.weights(model)


def one_code_for_two():
    """The same of a network that has one code for words that differ only where one of them cannot stand."""
    model = compile_machine(minimal(without_start(PLUS)), width=16).model
    return certificate.accepted(model, PLUS, codes.prove_codes(model, PLUS, 60), "given"), certificate.weights(model)


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


@pytest.fixture(scope="module")
def one_code():
    """A network that has one code for such words."""
    return compile_machine(minimal(without_start(PLUS)), width=16).model


@pytest.mark.slow
def test_words_that_differ_where_one_cannot_stand_may_have_one_code(one_code):
    together = codes.Exploration(codes.CodedNode(one_code), 2, PLUS, 60).verdict()
    assert "one code stands for words" in str(together)
    proof = codes.prove_codes(one_code, PLUS, 60)
    stated = certificate.accepted(one_code, PLUS, proof, "given")
    whole = [each for each in proof["proof"]["codes"] if not each["lacking"]]
    assert len({tuple(each["code"]) for each in whole}) < len(MachineAlgebra(PLUS, chunk=2))
    opinion = opinion_on(stated, certificate.weights(one_code))
    assert opinion.conditions == check(stated, certificate.weights(one_code)).conditions
    for length in (2, 4, 6):
        words = torch.cartesian_prod(*[torch.arange(5)] * length).reshape(-1, length)
        states = PLUS.machine.run(words)[:, -1].numpy()
        assert (said(one_code, words) == PLUS.answers[states])[PLUS.asked[states]].all()


def test_elements_are_one_code_s_where_they_differ_nowhere_that_matters():
    def level(*maps):
        n = len(maps)
        flags = np.zeros(n, dtype=bool)
        return codes.CodesOfLevel(
            np.array([[1], [1], [0]])[:n], np.array(maps), flags, flags, np.ones(n, dtype=int), []
        )

    first, joined = level([3, 0, 9], [2, 9, 9], [9, 9, 9]).joined(nowhere=9) or (None, None)
    assert first is None  # from state 0 one leads to 3 and one to 2
    first, joined = level([3, 0, 9], [3, 9, 1], [2, 9, 9]).joined(nowhere=9)
    assert (first.tolist(), joined.tolist()) == ([2, 0], [[2, 9, 9], [3, 0, 1]])
    assert level([3, 0, 9], [3, 9, 1]).joined(nowhere=-1) is None


@pytest.mark.slow
def test_what_a_map_says_is_free_only_where_nothing_can_be_asked(one_code):
    stated = certificate.accepted(one_code, PLUS, codes.prove_codes(one_code, PLUS, 60), "given")
    heeded = StatedClaim(PLUS.to_json()).heeded_by(2)
    elements, ignored = stated["proof"]["elements"], np.flatnonzero(~heeded).tolist()
    numbers = [each["element"] for each in stated["proof"]["codes"] if not each["lacking"]]
    tried = {True: 0, False: 0}
    for number, q in product(sorted(set(numbers)), np.flatnonzero(heeded).tolist()):
        free = elements[number][q] in ignored
        row = [*elements[number][:q], ignored[-1] if free else int(heeded.argmax()), *elements[number][q + 1 :]]
        if row in elements:
            continue
        told = resealed(
            {**stated, "proof": {**stated["proof"], "elements": [*elements[:number], row, *elements[number + 1 :]]}}
        )
        tried[free] += 1
        for ask in (check, opinion_on):
            if free:
                assert ask(told, certificate.weights(one_code)).conditions
            else:
                with pytest.raises(Rejected):
                    ask(told, certificate.weights(one_code))
    assert min(tried.values()) > 0


def test_a_claim_without_its_start_asks_for_all_that_it_asked():
    wider = minimal(without_start(PLUS))
    assert wider.machine.num_states < PLUS.machine.num_states
    for length in (1, 2, 3, 4):
        words = torch.cartesian_prod(*[torch.arange(5)] * length).reshape(-1, length)
        a, b = (claim.machine.run(words)[:, -1].numpy() for claim in (PLUS, wider))
        asked = PLUS.asked[a]
        assert wider.asked[b][asked].all()
        assert (wider.answers[b] == PLUS.answers[a])[asked].all()
    assert minimal(without_start(CLAIM)).machine.num_states == CLAIM.machine.num_states


def said(model, words):
    with torch.no_grad():
        return model(words).logits[:, -1].argmax(-1).numpy()


def test_it_is_right_on_every_short_string(model):
    for length in range(1, 11):
        words = torch.cartesian_prod(*[torch.arange(2)] * length).reshape(-1, length)
        right = CLAIM.answers[CLAIM.machine.run(words)[:, -1].numpy()]
        assert (said(model, words) == right).all()


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
