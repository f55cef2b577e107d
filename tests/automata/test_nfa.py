"""Nondeterministic machines against a search over all their paths, and those in two levels against those in one."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lengthwise import Error
from lengthwise.automata import NFA, BiNFA, Semiautomaton, from_regex, minimise

SEEDS = st.integers(0, 2**32 - 1)


def nfa(seed, states, symbols=2):
    rng = np.random.default_rng(seed)
    return NFA(rng.random((symbols, states, states)) < 0.3, accepting=np.flatnonzero(rng.random(states) < 0.5).tolist())


def lossy(machine, rng):
    """The same with some transitions gone, so that sets of states may die out."""
    parts = [NFA(p.matrices & (rng.random(p.matrices.shape) < 0.9), p.start, p.accepting) for p in machine.parts]
    return BiNFA(parts, [leaves & (rng.random(leaves.shape) < 0.8) for leaves in machine.leaves], machine.start)


def paths(machine, word):
    """Every state at the end of a path, each path walked by itself."""
    ends = set(machine.start)
    for s in word:
        ends = {q for p in ends for q in range(machine.num_states) if machine.matrices[s, p, q]}
    return frozenset(ends)


@given(SEEDS, st.integers(1, 5), st.lists(st.integers(0, 1), max_size=9))
def test_an_nfa_reaches_what_its_paths_reach(seed, states, word):
    machine = nfa(seed, states)
    assert machine.states_after(word) == paths(machine, word)
    assert machine.accepts(word) == bool(paths(machine, word) & machine.accepting)
    (start,) = machine.start
    assert set(np.flatnonzero(machine.word_matrix(word)[start]).tolist()) == paths(machine, word)


@given(SEEDS, st.integers(1, 4))
def test_determinised_it_accepts_the_same_words(seed, states):
    machine = nfa(seed, states)
    deterministic = machine.determinise()
    assert deterministic.num_states <= 2**states
    for word in (word for T in range(6) for word in product(range(2), repeat=T)):
        assert deterministic.accepts(word) == machine.accepts(word), word
    back = NFA.of(deterministic)
    assert minimise(back.determinise()).equivalent(minimise(deterministic))


def test_the_words_whose_third_last_letter_is_an_a():
    # The classic machine of 4 states whose deterministic form needs 8.
    a = [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    b = [[1, 0, 0, 0], *a[1:]]
    machine = NFA([a, b], accepting={3}, symbols="ab")
    assert minimise(machine.determinise()).num_states == 8
    assert machine.determinise().equivalent(from_regex("(a|b)*a(a|b)(a|b)", "ab"))


def test_it_runs_batches_from_given_states():
    machine, tokens = nfa(7, 4), torch.tensor([[0, 1, 1, 0, 1], [1, 1, 0, 0, 0]])
    reached = machine.run(tokens)
    assert reached.shape == (2, 5, 4)
    assert reached.dtype == torch.bool
    for row, found in zip(tokens.tolist(), reached, strict=True):
        for t in range(5):
            assert set(found[t].nonzero().flatten().tolist()) == paths(machine, row[: t + 1])
    assert torch.equal(machine.run([[1]], start={2})[0, 0], torch.from_numpy(machine.matrices[1, 2].copy()))
    assert machine.run(torch.zeros(0, 3, dtype=torch.long)).shape == (0, 3, 4)


def test_every_map_is_a_symbol_and_no_two_are_alike():
    machine = NFA.of_all_maps(2)
    assert len(np.unique(machine.matrices, axis=0)) == 16
    assert machine.accepting == {1}
    # f = f_1 f' f_2 of the theorem: some word around them tells any two symbols apart.
    tables = {tuple(machine.accepts([f, s, g]) for f in range(16) for g in range(16)) for s in range(16)}
    assert len(tables) == 16
    with pytest.raises(Error, match="entries in a machine's table"):
        NFA.of_all_maps(6)


@given(SEEDS, st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(1, 3), st.integers(0, 40))
def test_two_levels_run_as_one(seed, sizes, symbols, T):
    rng = np.random.default_rng(seed)
    machine = lossy(BiNFA.random(sizes, symbols, rng), rng)
    flat = machine.to_nfa()
    tokens = torch.from_numpy(rng.integers(machine.num_symbols, size=(2, T)))
    assert torch.equal(machine.run(tokens), flat.run(tokens))
    word = tokens[0].tolist()
    assert machine.accepts(word) == flat.accepts(word)
    assert np.array_equal(np.flatnonzero(machine.accepts_state), sorted(flat.accepting))
    # The outer machine alone, over whole segments.
    segments = [[]]
    for s in word:
        segments.append([]) if s == machine.separator else segments[-1].append(s)
    outer = np.arange(len(sizes)) == machine.start
    for segment in segments[:-1]:
        outer = (outer[:, None] & machine.segment_matrix(segment)).any(0)
    first = np.cumsum((0, *sizes))[:-1]
    assert {first[j] + machine.entries[j] for j in np.flatnonzero(outer)} == {
        q for q in flat.states_after(word[: len(word) - len(segments[-1])])
    }


def test_random_machines_live():
    rng = np.random.default_rng(0)
    for machine in (NFA.random(4, 3, rng), BiNFA.random([3, 2], 3, rng)):
        reached = machine.run(torch.from_numpy(rng.integers(machine.num_symbols, size=(2, 500))))
        assert reached.any(-1).all()
        assert 0.1 < reached.float().mean() < 0.9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NFA([[0, 1]]), "3 dimensions"),
        (lambda: NFA([[[0, 1]]]), r"\(S, Q, Q\)"),
        (lambda: NFA([[[2]]]), "0 or 1"),
        (lambda: NFA([[[1]]], accepting={1}), "states are 0..0, got 1 as accepting"),
        (lambda: NFA([[[1]]], symbols="ab"), "different symbol names"),
        (lambda: NFA([[[1]]]).run([[1]]), "NFA.run: tokens must be in 0..0"),
        (lambda: NFA([[[1]]], symbols="a").accepts("b"), "'b' is not a symbol"),
        (lambda: NFA.of(Semiautomaton([[0]])), "accepting states"),
        (lambda: BiNFA([], []), "a part or more"),
        (lambda: BiNFA([NFA([[[1]]])], [[[1, 0]]]), r"must be \(1, 1\)"),
        (lambda: BiNFA([NFA([[[1]]]), NFA([[[1]]] * 2)], [[[1, 0]]] * 2), "same symbols"),
        (lambda: BiNFA([NFA([[[1]]], start=[])], [[[1]]]), "one start state"),
        (lambda: BiNFA([NFA([[[1]]])], [[[1]]], start=1), "got start 1"),
        (lambda: BiNFA([NFA([[[1]]], symbols="|")], [[[1]]]), "different symbol names"),
        (lambda: BiNFA([NFA([[[1]]])], [[[1]]]).segment_matrix([0, 1]), "without its separator"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(Error, match=message):
        make()
