"""Words to try: each ends where something is asked, and every pattern has what its name says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lengthwise import tasks
from lengthwise.verify.claim import claim_of
from lengthwise.verify.falsification import patterns
from lengthwise.verify.falsification.reading import end_states
from lengthwise.verify.falsification.words import FITTED, Words

NAMES = ["parity", "modular-arithmetic", "cycle-navigation", "even-pairs", "d-2", "word-problem"]
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [1, 2, 3, 17, 64])
def test_every_word_ends_where_something_is_asked(name, length):
    words = Words(claim_of(tasks.get(name)))
    machine = words.machine
    for rows in words.patterns(length, 6, draw=0):
        assert 1 <= len(rows) <= 6
        assert length - len(words.reach[0]) < rows.shape[1] <= length
        assert rows.min() >= 0
        assert rows.max() < machine.num_symbols
        assert words.claim.asked[end_states(machine, rows)].all()


@pytest.mark.parametrize("name", NAMES[:-1])
def test_all_words_are_those_that_are_asked(name):
    claim = claim_of(tasks.get(name))
    S = claim.machine.num_symbols
    for length in (1, 2, 3):
        found = [tuple(word) for part in Words(claim).all(length) for word in part.tolist()]
        wanted = [word for word in itertools.product(range(S), repeat=length) if claim.right(word) is not None]
        assert found == wanted
        assert Words(claim).possible(length) == bool(wanted)


def test_draws_are_functions_of_their_number():
    words = Words(claim_of(tasks.get("parity")))
    one, again, other = (list(words.patterns(40, 8, draw)) for draw in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_long_expressions_repeat_a_part():
    words = Words(claim_of(tasks.get("modular-arithmetic")))
    length = 3 * FITTED
    lengths = set()
    for rows in itertools.islice(words.patterns(length, 1, draw=0), 6):
        T = rows.shape[1]
        lengths.add(T)
        assert length >= T
        assert words.claim.asked[end_states(words.machine, rows)].all()
    assert max(lengths) > length - FITTED


def test_de_bruijn_words_have_every_block_once():
    word = patterns._de_bruijn(3, 4)
    blocks = {tuple(np.roll(word, -i)[:4]) for i in range(len(word))}
    assert len(word) == len(blocks) == 3**4


def test_tours_take_every_transition_and_every_pair():
    machine = tasks.get("cycle-navigation").machine
    for family, length in ((patterns.transitions, 60), (patterns.pairs, 300)):
        word = family(machine, length, 1, np.random.default_rng(1))[0]
        states = [machine.start, *machine.run(word[None])[0].tolist()]
        steps = list(zip(states, word.tolist(), strict=False))
        single, double = set(steps), set(itertools.pairwise(steps))
        if family is patterns.transitions:
            assert len(single) == machine.delta.size
        else:
            assert len(double) == machine.delta.size * machine.num_symbols


def test_runs_are_of_every_length():
    from .broken import longest_run

    machine = tasks.get("parity").machine
    word = patterns.growing_runs(machine, 2000, 2, RNG)
    assert [longest_run(each) for each in word] == [62, 62]
    found = {longest_run(word) for word in patterns.one_run(machine, 130, 200, RNG)}
    assert len(found & set(range(12, 131))) > 60


def test_an_alphabet_of_one_symbol():
    from lengthwise.automata import Semiautomaton

    words = Words(claim_of(Semiautomaton([[1], [0]])))
    assert all(not rows.any() for rows in words.patterns(9, 4, draw=0))
