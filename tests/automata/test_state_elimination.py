"""An expression that is written for a machine is read as the same machine."""

import numpy as np
import pytest

from lengthwise import tasks
from lengthwise.automata import Semiautomaton, from_regex, to_regex


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        ("(ab|ba)*", "(ab|ba)*"),
        ("a*b", "a*b"),
        ("a{3}b?", "aaab?"),
        ("a(b|c)*d|x", "x|a(b|c)*d"),
        ("ab|ac|ad", "a(b|c|d)"),
        ("aa*", "a+"),
        ("()|a", "a?"),
        (r"\**a|\(", r"\(|\**a"),
    ],
)
def test_short_ones_are_short(pattern, written):
    assert to_regex(from_regex(pattern)) == written


@pytest.mark.parametrize("name", ["parity", *(f"tomita-{i}" for i in range(1, 8)), "d-2", "d-3", "d-4"])
def test_machines_of_tasks_are_read_back(name):
    machine = tasks.get(name).machine
    assert from_regex(to_regex(machine), machine.symbols).equivalent(machine)


def test_random_machines_are_read_back():
    draw, written = np.random.default_rng(0), 0
    for _ in range(60):
        Q, S = draw.integers(1, 8), draw.integers(1, 4)
        accepting = set(np.flatnonzero(draw.random(Q) < 0.4).tolist())
        table = draw.integers(Q, size=(Q, S))
        machine = Semiautomaton(table, int(draw.integers(Q)), accepting=accepting, symbols="ab*"[:S])
        regex = to_regex(machine, longest=150)
        if regex is not None:
            written += 1
            assert len(regex) <= 150
            assert from_regex(regex, machine.symbols).equivalent(machine)
    assert written > 30


def test_what_has_no_expression():
    machine = from_regex("(ab|ba)*")
    assert to_regex(machine, longest=7) is None
    assert to_regex(machine.with_accepting([])) is None
    assert to_regex(tasks.get("even-pairs").machine) is None  # accepts nothing: its states have answers
    assert to_regex(Semiautomaton([[0]], accepting={0}, symbols=["ab"])) is None
    many = np.random.default_rng(0).integers(60, size=(60, 3))
    assert to_regex(Semiautomaton(many, accepting={0}, symbols="abc")) is None
