"""Composition, monoids, products, minimal machines and distinguishing words, against enumeration."""

from itertools import product as words_over

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lengthwise import Error
from lengthwise.automata import (
    Semiautomaton,
    compose,
    difference,
    live_states,
    minimise,
    product,
    reachable,
    transition_monoid,
    word_map,
)

S5 = Semiautomaton([[1, 1], [0, 2], [2, 3], [3, 4], [4, 0]])  # a swap and a cycle of five points


@st.composite
def machines(draw, symbols=2, max_states=6):
    Q = draw(st.integers(1, max_states))
    delta = draw(st.lists(st.lists(st.integers(0, Q - 1), min_size=symbols, max_size=symbols), min_size=Q, max_size=Q))
    return Semiautomaton(delta, draw(st.integers(0, Q - 1)), draw(st.sets(st.integers(0, Q - 1))))


def short_words(symbols, longest):
    return [list(w) for n in range(longest + 1) for w in words_over(range(symbols), repeat=n)]


@given(machines(), st.lists(st.integers(0, 1), max_size=6), st.lists(st.integers(0, 1), max_size=6))
def test_the_map_of_uv_is_that_of_u_then_v(machine, u, v):
    both = word_map(machine, u + v)
    assert np.array_equal(both, compose(word_map(machine, u), word_map(machine, v)))
    assert both[machine.start] == machine.state_after(u + v)


@given(machines(max_states=4))
def test_the_monoid_is_what_words_make(machine):
    monoid = transition_monoid(machine)
    found = {element.tobytes() for element in monoid.elements}
    assert len(found) == len(monoid)
    assert {word_map(machine, w).tobytes() for w in short_words(2, 6)} <= found
    for element, word in zip(monoid.elements, monoid.words, strict=True):
        assert np.array_equal(word_map(machine, word), element)
    for i, row in enumerate(monoid.cayley):
        for s, j in enumerate(row):
            assert np.array_equal(machine.delta[monoid.elements[i], s], monoid.elements[j])


def test_a_swap_and_a_cycle_make_all_permutations():
    monoid = transition_monoid(S5)
    assert len(monoid) == 120
    assert monoid.is_group
    assert not transition_monoid(Semiautomaton([[0, 1], [0, 1]])).is_group
    with pytest.raises(Error, match="more than 100 elements"):
        transition_monoid(S5, limit=100)


@given(machines(), machines())
def test_a_product_runs_both(a, b):
    both = product(a, b, lambda x, y: x and not y)
    for word in short_words(2, 5):
        assert both.accepts(word) == (a.accepts(word) and not b.accepts(word))
        assert both.states[both.state_after(word)] == (a.state_after(word), b.state_after(word))


@given(machines())
def test_minimal_machines_have_the_language_and_no_state_too_many(machine):
    small = minimise(machine)
    assert small.equivalent(machine)
    assert minimise(small) == small
    # Two states of a minimal machine are told apart by a word shorter than their number.
    words = short_words(2, small.num_states - 1 if small.num_states < 7 else 5)
    futures = {
        tuple(Semiautomaton(small.delta, q, small.accepting).accepts(w) for w in words) for q in range(small.num_states)
    }
    assert len(futures) == small.num_states


@given(machines(), machines())
@settings(max_examples=60)
def test_difference_is_a_shortest_word_that_tells_apart(a, b):
    word = difference(a, b)
    assert a.equivalent(b) == (word is None)
    if word is None:
        assert minimise(a) == minimise(b)
        assert all(a.accepts(w) == b.accepts(w) for w in short_words(2, 6))
        return
    assert a.accepts(word) != b.accepts(word)
    if len(word) <= 6:
        assert all(a.accepts(w) == b.accepts(w) for w in short_words(2, len(word) - 1))


def test_labels_are_kept_apart():
    ring = Semiautomaton([[1], [2], [3], [0]])
    assert minimise(ring, labels=[0, 1, 0, 1]).num_states == 2
    assert minimise(ring, labels=[0, 1, 2, 1]).num_states == 4


def test_live_states_lead_to_acceptance():
    machine = Semiautomaton([[1, 2], [1, 1], [2, 2]], accepting={1})
    assert live_states(machine).tolist() == [True, True, False]


def test_reachable_renumbers_from_the_start():
    machine = reachable(Semiautomaton([[0], [2], [1]], start=2, accepting={1}))
    assert (machine.num_states, machine.start, machine.delta.tolist(), machine.accepting) == (2, 0, [[1], [0]], {1})


def test_machines_over_other_symbols_do_not_compare():
    with pytest.raises(Error, match="different symbols"):
        difference(Semiautomaton([[0]], accepting=[0]), Semiautomaton([[0]], accepting=[0], symbols="a"))


def test_a_distinguishing_word_reads_forwards():
    ab = Semiautomaton([[1, 3], [3, 2], [3, 3], [3, 3]], accepting={2}, symbols="ab")
    assert ab.difference(ab.with_accepting([])) == [0, 1]
