"""Widths of one level and two, networks that are right, and symbols that their answers tell apart."""

from itertools import pairwise

import numpy as np
import pytest

from lengthwise import recipes
from lengthwise.automata import NFA, BiNFA
from lengthwise.recipes.papers.bipe import theorem_3
from lengthwise.recipes.papers.bipe.theorem_3 import SETTINGS, answers, check, widths


def test_the_panels():
    width, built, apart = recipes.get("bipe", "theorem-3", "smoke").panels([])
    assert width.data["series"]["built with BiPE"]["y"] == [row["with_bipe"] for row in widths(SETTINGS["smoke"])]
    assert [row["wrong"] for row in built.data] == [0]
    assert 0 < built.data[0]["yes"] < built.data[0]["answers"]
    assert [(row["symbols"], row["told_apart"]) for row in apart.data] == [(2, 2), (16, 16)]


def test_the_answers_are_the_matrix():
    machine = NFA.of_all_maps(2)
    found = answers(machine)
    # f_1 leads to p, and f_2 from q to the end: the word is accepted where f leads from p to q.
    assert np.array_equal(found, machine.matrices.reshape(16, 4))


def test_a_wrong_network_is_noticed(monkeypatch):
    turns = NFA(np.eye(2)[None, [1, 0]], accepting={0})
    machine, other = (BiNFA([turns, turns], [[[0, 1], [1, 0]]] * 2, start) for start in (0, 1))
    assert check(machine, 60, 5).wrong == 0
    built = theorem_3.bipe
    monkeypatch.setattr(theorem_3, "bipe", lambda machine, **sizes: built(other, **sizes))
    assert check(machine, 60, 5).wrong > 0


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_two_levels_grow_like_k_cubed(scale):
    rows = widths(SETTINGS[scale])
    assert all(row["one_level"] >= row["bound"] for row in rows)
    for few, more in pairwise(rows[3:]):
        ratio = more["parts"] / few["parts"]
        assert more["one_level"] / few["one_level"] == pytest.approx(ratio**4, rel=0.05)
        assert more["with_bipe"] / few["with_bipe"] == pytest.approx(ratio**3, rel=0.1)
