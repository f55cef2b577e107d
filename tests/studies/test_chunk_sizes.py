"""Chunk sizes: the tuples counted one by one, the maps from the records, and what is said about their connection."""

import json
from itertools import product

import chunk_sizes as sizes
import numpy as np
import pytest
import torch
from chunk_sizes import Accuracy, Causes, TransitionTree, Why, causes, new, nodes, places, together, training_strings

from lengthwise import Error, lab, tasks
from lengthwise.automata import compose, word_map
from lengthwise.cli import main
from lengthwise.models.depth import groups

NAMES = [("cycle-navigation", {}), ("tomita-5", {}), ("d-2", {}), ("modular-arithmetic", {"leading_plus": True})]


def tree_of(name, **params):
    task = tasks.get(name, **params)
    assert task.machine
    return task, TransitionTree(task.machine)


def by_hand(machine, word, C):
    """The tuples at the nodes that the last answer needs, as tuples of maps; None is the pad."""
    row, found = [tuple(word_map(machine, [s])) for s in word], []
    for _ in range(groups(len(word), C)):
        row = [None] * (-len(row) % C) + row
        chunks = [tuple(row[i : i + C]) for i in range(0, len(row), C)]
        found += chunks
        row = []
        for chunk in chunks:
            all_of_it = np.arange(machine.num_states)
            for child in chunk:
                all_of_it = all_of_it if child is None else compose(all_of_it, np.array(child))
            row.append(tuple(all_of_it))
    return found


@pytest.mark.parametrize(("name", "params"), NAMES)
@pytest.mark.parametrize("C", [2, 3, 8])
def test_tuples_are_those_found_by_hand(name, params, C):
    task, tree = tree_of(name, **params)
    strings = task.test_set(20, 12).tokens.numpy()
    hashes = np.stack([group.reshape(12, -1) for group in tree.tuples(strings, C)[:1]])[0]
    every = np.concatenate([group.reshape(12, -1) for group in tree.tuples(strings, C)], axis=1)
    expected = [by_hand(task.machine, word, C) for word in strings.tolist()]
    assert every.shape == (12, len(expected[0]))
    assert hashes.shape[1] == -(-20 // C)
    pairs = {(int(h), t) for row, of in zip(every, expected, strict=True) for h, t in zip(row, of, strict=True)}
    assert len(pairs) == len({h for h, _ in pairs}) == len({t for _, t in pairs}), "one hash for each tuple"
    assert nodes([20], C) == every.shape[1]


def test_the_table_composes():
    _, tree = tree_of("d-2")
    N, elements = tree.size, tree.monoid.elements
    assert tree.table.shape == (N + 1, N + 1)
    for i in range(N):
        for j in range(N):
            assert (elements[tree.table[i, j]] == compose(elements[i], elements[j])).all()
    assert tree.table[N].tolist() == tree.table[:, N].tolist() == list(range(N + 1)), "the pad changes nothing"


@pytest.mark.parametrize(("name", "C"), [("parity", 3), ("tomita-5", 2), ("cycle-navigation", 3), ("d-2", 2)])
def test_needed_is_what_all_words_need(name, C):
    task, tree = tree_of(name)
    machine, length = task.machine, C**2
    all_ = np.unique(tree.tokens)
    most = 0
    for l in range(groups(length, C)):
        words = product(range(machine.num_symbols), repeat=C**l)
        most = max(most, len({tuple(word_map(machine, word)) for word in words}) ** C)
    assert tree.needed((all_, all_), C, length) == most


def test_symbols_that_alternate_make_kinds_that_alternate():
    task, tree = tree_of("modular-arithmetic", leading_plus=True)
    strings = training_strings(task, task.lengths(2, 12), 600)
    digits, operators = places(tree, strings)
    assert set(digits) == set(tree.tokens[:5])
    assert set(operators) == set(tree.tokens[5:8])
    # One group of C = 2: an operator and a number; of C = 3: number, operator, number, or the other way round.
    assert tree.needed((digits, operators), 2, 2) == 15
    assert tree.needed((digits, operators), 3, 3) == 5 * 3 * 5
    # Three groups of C = 2: the children of the last are two such pairs each, whatever their distance.
    pairs = list(product([5, 6, 7], range(5)))
    kinds = {tuple(word_map(task.machine, [*a, *b])) for a, b in product(pairs, pairs)}
    assert tree.needed((digits, operators), 2, 8) == len(kinds) ** 2
    # Two groups of C = 3: number, operator, number stands beside operator, number, operator.
    ends = [{tuple(word_map(task.machine, word)) for word in product(*of)}
            for of in ([range(5), [5, 6, 7], range(5)], [[5, 6, 7], range(5), [5, 6, 7]])]  # fmt: skip
    inner, outer = map(len, ends)
    assert tree.needed((digits, operators), 3, 9) == max(inner**2 * outer, inner * outer**2)


def test_new_is_what_no_training_string_had():
    task, tree = tree_of("parity")
    zeros, ones = torch.zeros(1, 4, dtype=torch.long), torch.ones(1, 4, dtype=torch.long)
    assert new(tree, [zeros], zeros, 2) == 0
    # Of 1111 the nodes are (1,1), (1,1), and above them (0,0), which the zeros had.
    assert new(tree, [zeros], ones, 2) == pytest.approx(2 / 3)
    # The pad is a kind of its own: no training string had (pad, 0) above.
    assert new(tree, [zeros], torch.zeros(1, 3, dtype=torch.long), 2) == pytest.approx(1 / 3)
    strings = training_strings(task, range(1, 41), 4000)
    assert new(tree, strings, task.test_set(500, 4).tokens, 2) == 0
    assert new(tree, strings, task.test_set(500, 4).tokens, 8) == 0, "the first group has them all"
    task, tree = tree_of("tomita-5")
    strings = training_strings(task, task.lengths(1, 40), 4000)
    assert new(tree, strings, task.test_set(500, 4).tokens, 2) == 0
    # Eight symbols make another kind of transition than one; eight of those need 57 tokens.
    assert new(tree, strings, task.test_set(500, 4).tokens, 8) == pytest.approx(1 / 9, abs=0.02)


def test_causes_of_a_task():
    found = causes(tasks.get("cycle-navigation"), (2, 3), (1, 40), 4000, 500, 4)
    assert (found.elements, found.longest, found.drawn) == (5, 500, 4000)
    assert [found.by_chunk[C].needed for C in (2, 3)] == [25, 125]
    assert found.by_chunk[2].shown == 4000 * nodes(range(1, 41), 2)
    assert found.by_chunk[2].ratio == pytest.approx(np.log10(25 / found.by_chunk[2].shown))
    with pytest.raises(Error, match="need a machine"):
        causes(tasks.get("modular-arithmetic", brackets=True), (2,), (1, 39), 10, 99, 2)


def test_the_connection_is_said_as_found():
    why = {"a": Causes(2, 500, 10, {2: Why(4, 100, 0.0), 3: Why(8, 100, 0.0)}),
           "b": Causes(9, 500, 10, {2: Why(81, 100, 0.1), 3: Why(729, 100, 0.9)})}  # fmt: skip
    cells = [Accuracy("a", 2, 1.0, 1.0, 0.5), Accuracy("a", 3, 1.0, 0.9, 0.5), Accuracy("b", 2, 0.9, 0.6, 0.2),
             Accuracy("b", 3, 0.5, 0.2, 0.2)]  # fmt: skip
    assert [cell.skill for cell in cells] == pytest.approx([1, 0.8, 0.5, 0])
    panel = together(cells, why)
    assert panel.data["correlations"]["tuples needed"]["beyond"] == -1
    assert panel.data["correlations"]["C itself"]["beyond"] > -1
    assert "In 2 cells training showed every tuple of the test strings, and 1 of them" in panel.caption
    flat = together([cell._replace(beyond=1.0) for cell in cells], why)
    assert flat.data["correlations"]["tuples needed"]["beyond"] is None


def test_smoke(root, capsys):
    call = ["reproduce", sizes.__file__, "--scale", "smoke", "--out", str(root), "--workers", "1"]
    assert main([*call, "--only", "modular-arithmetic", "--json"]) == 0
    beyond, inside, ratios, unseen, connection, hard = json.loads(capsys.readouterr().out)["panels"]
    assert beyond["data"]["columns"] == ratios["data"]["columns"] == [f"C={C}" for C in sizes.CHUNKS]
    assert [len(panel["data"]["rows"]) for panel in (beyond, inside, ratios, unseen)] == [1] * 4
    assert ratios["data"]["rows"] == ["modular-arithmetic (|M| = 568)"]
    assert len(connection["data"]["cells"]) == 5
    assert (hard["data"]["rows"], hard["data"]["columns"]) == (["C=2", "C=3", "C=4"], ["K=1", "K=2", "K=3"])
    run = next(r for r in lab.load(root) if r.experiment.model.options == {"width": 16, "chunk": 8, "thickness": 1})
    right = run.result["checkpoints"]["last"]["correct"]
    shares = [right[str(n)] / 4 for n in run.experiment.tests.lengths if n > 40]
    assert beyond["data"]["values"][0][-1] == pytest.approx(sum(shares) / len(shares))

    correct = {str(n): 4 * (n < 8) for n in run.experiment.tests.lengths}
    assert sizes.solved(run._replace(result={**run.result, "checkpoints": {"last": {"correct": correct}}})) == 6
    correct = {str(n): 4 * (n > 2) for n in run.experiment.tests.lengths}
    assert sizes.solved(run._replace(result={**run.result, "checkpoints": {"last": {"correct": correct}}})) == 0


def test_all_cells_are_trained_alike():
    wide = [
        sizes.planned(sizes.ChunkKey(label, C, 1, False), sizes.SETTINGS["laptop"])[0]
        for label, C in [("parity", 2), ("modular-arithmetic", 8), ("d-4", 3), ("tomita-5", 2), ("word-problem A5", 2)]
    ]
    assert len({e.training for e in wide}) == 1
    assert {e.training.curriculum.lengths for e in wide} == {(1, 40)}
    assert wide[0].tests.lengths[-1] == 500
    assert [n for n in wide[1].tests.lengths if n <= 40] == list(range(2, 41, 2)), "for the longest length learned"
