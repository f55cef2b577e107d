"""The integer table: runs, acceptance, and what is refused."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lengthwise import Error
from lengthwise.automata import Semiautomaton

from .test_algebra import machines


@given(st.integers(1, 3).flatmap(machines), st.integers(0, 3), st.integers(0, 9), st.integers(0, 99))
def test_run_follows_the_table(machine, B, T, seed):
    tokens = torch.randint(machine.num_symbols, (B, T), generator=torch.Generator().manual_seed(seed))
    states = machine.run(tokens)
    assert states.shape == (B, T)
    for row, found in zip(tokens.tolist(), states.tolist(), strict=True):
        q = machine.start
        for s, reached in zip(row, found, strict=True):
            q = int(machine.delta[q, s])
            assert reached == q
        assert machine.accepts(row) == (q in machine.accepting)


def test_run_goes_on_from_given_states():
    machine = Semiautomaton([[1, 0], [2, 1], [0, 2]])
    tokens = torch.tensor([[0, 0, 1, 0], [1, 0, 0, 0]])
    whole = machine.run(tokens)
    assert torch.equal(machine.run(tokens[:, 2:], start=whole[:, 1]), whole[:, 2:])


def test_complement_accepts_the_others():
    machine = Semiautomaton([[0, 1], [1, 0]], accepting={0})
    assert machine.accepts("11")
    assert not machine.complement().accepts("11")


def test_from_function_finds_exactly_the_reachable_states():
    machine = Semiautomaton.from_function(lambda q, s: min(q + s, 3), 0, 2, accept=lambda q: q == 3)
    assert machine.states == (0, 1, 2, 3)
    assert machine.accepts("0101010")
    assert not machine.accepts("11")
    with pytest.raises(Error, match="more than 10 states"):
        Semiautomaton.from_function(lambda q, s: q + s, 0, 2, limit=10)


def test_json_round_trip():
    machine = Semiautomaton([[0, 1], [1, 0]], 1, {0}, ["no", "yes"])
    assert Semiautomaton(**machine.to_json()) == machine
    assert machine.accepts("yes no")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Semiautomaton([[0, 2], [0, 1]]), "0..1, got 0..2"),
        (lambda: Semiautomaton([[0, 1], [0]]), "table"),
        (lambda: Semiautomaton([]), "at least one state"),
        (lambda: Semiautomaton([[0]], start=1), "got 1"),
        (lambda: Semiautomaton([[0]], accepting={-1}), "got -1"),
        (lambda: Semiautomaton([[0, 0]], symbols="aa"), "different symbol names"),
        (lambda: Semiautomaton([[0, 0]]).run([[0, 2]]), "0..1"),
        (lambda: Semiautomaton([[0, 0]]).run([0, 1]), "shape"),
        (lambda: Semiautomaton([[0, 0]]).accepts([0]), "no accepting states"),
        (lambda: Semiautomaton([[0, 0]], accepting=[0]).accepts("02"), "'2' is not a symbol"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(Error, match=message):
        make()
