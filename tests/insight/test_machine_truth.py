"""The truth about windows of tokens, by reading them one token at a time."""

import numpy as np
import pytest
import torch

from lengthwise import tasks
from lengthwise.automata import Semiautomaton, word_map
from lengthwise.insight.block_outputs import BlockOutput
from lengthwise.insight.machine_truth import compare_with_machine, window_transitions

TOKENS = np.random.default_rng(0).integers(0, 3, (2, 23))
RING = tasks.get("cycle-navigation").machine
# What the symbols do does not commute, and 2 forgets.
ODD = Semiautomaton([[1, 0, 2], [0, 2, 2], [2, 1, 2]], start=1)


@pytest.mark.parametrize("reach", [1, 2, 3, 4, 7, 16, 22, 23, 24, 100, None])
def test_transitions_by_hand(reach):
    found = window_transitions(ODD, TOKENS, reach)
    for b, t in [(0, 0), (0, 5), (1, 15), (1, 22)]:
        start = 0 if reach is None else max(0, t + 1 - reach)
        assert found[b, t].tolist() == word_map(ODD, TOKENS[b, start : t + 1].tolist()).tolist()


def block(reach, positions=None) -> BlockOutput:
    positions = torch.arange(23) if positions is None else torch.tensor(positions)
    return BlockOutput("b", torch.zeros(2, len(positions), 4), positions, reach)


def test_clusters_that_are_the_transitions():
    read = [block(2), block(4)]
    members = [window_transitions(RING, TOKENS, reach)[..., 0].reshape(-1) for reach in (2, 4)]
    found = compare_with_machine(RING, TOKENS, read, members)
    assert (found.about, found.kinds, found.agreement, found.depths) == ("transition", 5, 1.0, (1.0, 1.0))
    # Cluster i takes place 0 to place i; symbol 0 stays, 1 goes on, 2 goes back.
    assert found.names == ("0", "1", "11", "22", "2")
    assert found.chance == pytest.approx(max(np.bincount(np.concatenate(members))) / 92)


def test_agreement_counts_the_strays():
    members = window_transitions(RING, TOKENS, 2)[..., 0].reshape(-1).copy()
    members[[3, 30]] = (members[[3, 30]] + 1) % 5
    found = compare_with_machine(
        RING, TOKENS, [block(2), block(2)], [members, window_transitions(RING, TOKENS, 2)[..., 0].reshape(-1)]
    )
    assert found.agreement == pytest.approx(1 - 2 / 92)
    assert found.depths == pytest.approx((1 - 2 / 46, 1.0))


def test_a_block_that_sees_all_is_held_against_the_state():
    states = ODD.run(TOKENS).numpy().reshape(-1)
    found = compare_with_machine(ODD, TOKENS, [block(None)], [states])
    assert (found.about, found.agreement) == ("state", 1.0)
    assert found.kinds == len(set(states.tolist()))
    assert found.names[states[0]] == f"state {states[0]}"


def test_outputs_at_some_positions_alone():
    positions = [2, 10, 22]
    members = window_transitions(RING, TOKENS, 8)[:, positions, 0].reshape(-1)
    found = compare_with_machine(RING, TOKENS, [block(8, positions)], [members])
    assert found.agreement == 1.0


def test_words_for_nothing_and_for_too_much():
    loops = Semiautomaton([[1, 0], [0, 1]])
    tokens = np.array([[0, 0, 0, 0]])
    found = compare_with_machine(
        loops, tokens, [BlockOutput("b", torch.zeros(1, 4, 1), torch.arange(4), 2)], [np.array([0, 1, 1, 1])]
    )
    assert found.names == ("0", "1"), "symbol 1 does nothing, as do two of symbol 0"
    never = Semiautomaton([[1], [0]])
    found = compare_with_machine(
        never, tokens, [BlockOutput("b", torch.zeros(1, 4, 1), torch.arange(4), 2)], [np.array([0, 1, 1, 1])]
    )
    assert found.names == ("0", "ε")
    # All 8^8 maps of 8 states: far too many to have words for.
    cycle = [(q + 1) % 8 for q in range(8)]
    swap, merge = [1, 0, *range(2, 8)], [0, 0, *range(2, 8)]
    full = Semiautomaton(np.array([cycle, swap, merge]).T)
    found = compare_with_machine(
        full, np.array([[0, 1]]), [BlockOutput("b", torch.zeros(1, 2, 1), torch.arange(2), 1)], [np.array([0, 1])]
    )
    assert found.names == ("1 2 3 4 5 6 7 0", "1 0 2 3 4 5 6 7")
