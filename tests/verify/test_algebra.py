"""The elements that trees need: those of the aligned factors of words with an answer, each with a code of its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lengthwise import automata, tasks
from lengthwise.errors import Error, TooLarge
from lengthwise.verify.algebra import PAD, MachineAlgebra
from lengthwise.verify.claim import Claim, claim_of
from lengthwise.verify.consolidate.element_codes import congruences, structured_codes

S5 = {"group": "S5", "generators": [[1, 0, 2, 3, 4], [1, 2, 3, 4, 0]]}
TASKS = {
    "parity": {},
    "even-pairs": {},
    "tomita-3": {},
    "d-2": {},
    "cycle-navigation": {},
    "modular-arithmetic": {},
    "modular-arithmetic +": {"leading_plus": True},
    "word-problem": {"group": "S3"},
}


def claim(name):
    return claim_of(tasks.get(name.split()[0], **TASKS[name]))


@pytest.mark.parametrize("chunk", [2, 3])
@pytest.mark.parametrize("name", TASKS)
def test_every_node_of_a_word_with_an_answer_is_a_condition(name, chunk):
    if name == "modular-arithmetic" and chunk == 3:
        pytest.skip("its conditions are too many")
    task, wanted = tasks.get(name.split()[0], **TASKS[name]), claim(name)
    if name.startswith("modular"):
        wanted = claim_of(tasks.get("modular-arithmetic", modulus=2, leading_plus="+" in name))
        task = tasks.get("modular-arithmetic", modulus=2, leading_plus="+" in name)
    algebra = MachineAlgebra(wanted, chunk)
    conditions = algebra.conditions()
    known = {tuple(taps): result for taps, result in zip(conditions.taps.tolist(), conditions.results, strict=True)}
    S, draw = len(algebra.leaves), torch.Generator().manual_seed(0)
    for length in [n for n in (1, 2, 3, 4, 7, 8, 13, 26) if task.problem(n) is None]:
        for word in task.sample(length, 4, draw).tokens.tolist():
            nodes = [1 + s for s in word]
            maps = [algebra.leaves[s] for s in word]
            first = True
            while first or len(nodes) > 1:
                first = False
                ends = list(range(len(nodes), 0, -chunk))[::-1]
                groups = [range(max(0, end - chunk), end) for end in ends]
                taps = [tuple([PAD] * (chunk - len(g)) + [nodes[i] for i in g]) for g in groups]
                products = []
                for g in groups:
                    m = np.arange(wanted.machine.num_states)
                    for i in g:
                        m = maps[i][m]
                    products.append(m)
                for tap, m in zip(taps, products, strict=True):
                    assert np.array_equal(algebra.elements[known[tap]], m)
                nodes, maps = [1 + S + known[tap] for tap in taps], products


@pytest.mark.parametrize("name", ["parity", "tomita-3", "d-2", "cycle-navigation"])
def test_where_all_is_asked_the_elements_are_the_monoid(name):
    algebra = MachineAlgebra(claim(name), 2)
    monoid = automata.transition_monoid(algebra.claim.machine)
    products = {element.tobytes() for element in monoid.elements[monoid.cayley].reshape(-1, monoid.elements.shape[1])}
    assert {element.tobytes() for element in algebra.elements} == products
    N, S = len(algebra), len(algebra.leaves)
    assert len(algebra.conditions().taps) == N * N + N + S * S + S


def test_malformed_words_need_nothing():
    """Of + 1 - 2 * 3 all pairs are an operator and a digit."""
    algebra = MachineAlgebra(claim("modular-arithmetic +"), 2)
    assert {word for word, _ in algebra.leaf_groups} == {(o, d) for o in (5, 6, 7) for d in range(5)}
    assert len(algebra) == 154
    assert len(automata.transition_monoid(algebra.claim.machine)) == 568


def test_a_code_for_each_element():
    for name in TASKS:
        algebra = MachineAlgebra(claim(name), 2)
        codes = structured_codes(algebra)
        assert len(np.unique(codes, axis=0)) == len(codes) == len(algebra)


def test_words_of_s5_are_maps_of_five_points():
    algebra = MachineAlgebra(claim_of(tasks.get("word-problem", **S5)), 2)
    codes = structured_codes(algebra)
    assert len(algebra.conditions().taps) == 14_526
    assert codes.shape == (120, 5)
    assert (np.sort(codes, 1) == np.arange(5)).all()
    T = {code.tobytes(): i for i, code in enumerate(codes)}
    for i, j in np.random.default_rng(0).integers(0, 120, (50, 2)):
        product = algebra.numbers(algebra.elements[j][algebra.elements[i]][None])[0]
        assert T[codes[j][codes[i]].tobytes()] == product


def test_symbols_respect_congruences():
    delta = tasks.get("modular-arithmetic").machine.delta
    found = congruences(delta, np.ones(len(delta), dtype=bool))
    assert len(found) > 2
    for partition in found:
        for column in delta.T:
            after = {}
            for q, block in enumerate(partition):
                assert after.setdefault(block, partition[column[q]]) == partition[column[q]]


def test_nothing_asked_is_refused():
    machine = automata.Semiautomaton([[0, 1], [1, 0]])
    with pytest.raises(Error, match="asks nothing after any word"):
        MachineAlgebra(Claim(machine, np.array([0, 1]), np.zeros(2, dtype=bool)), 2).conditions()


def test_too_many_elements_are_refused(monkeypatch):
    monkeypatch.setenv("LENGTHWISE_MAX_ELEMENTS", "10")
    with pytest.raises(Error, match="at most 10 elements of a machine's algebra"):
        MachineAlgebra(claim("d-2"), 2)


def test_too_many_conditions_are_refused_by_how_many_there_are(monkeypatch):
    """Of parity six of leaves, six of elements, and two answers: those listed, and the head on each element."""
    algebra = MachineAlgebra(claim("parity"), 2)
    assert len(algebra.conditions().taps) + len(algebra) == 14
    monkeypatch.setenv("LENGTHWISE_MAX_CONDITIONS", "13")
    with pytest.raises(TooLarge, match=r"at most 13 conditions of closure, got 14\. .*LENGTHWISE_MAX_CONDITIONS"):
        MachineAlgebra(claim("parity"), 2)
    monkeypatch.setenv("LENGTHWISE_MAX_CONDITIONS", "14")
    assert len(MachineAlgebra(claim("parity"), 2)) == 2
