"""Groups as permutations, and their word problems."""

from itertools import pairwise, permutations
from math import factorial

import numpy as np
import pytest
import torch

from lengthwise import Error, tasks
from lengthwise.automata import transition_monoid
from lengthwise.errors import LengthError
from lengthwise.tasks.word_problem import group_elements


@pytest.mark.parametrize(("group", "order"), [("Z2", 2), ("Z12", 12), ("S3", 6), ("S5", 120), ("A4", 12), ("A5", 60)])
def test_the_machine_is_the_group(group, order):
    task = tasks.get("word-problem", group=group)
    assert task.outputs == len(task.vocabulary) == task.machine.num_states == order
    monoid = transition_monoid(task.machine)
    assert len(monoid) == order
    assert monoid.is_group
    assert group_elements(group)[0].tolist() == list(range(group_elements(group).shape[1]))


def test_generators_generate():
    swap, ring = [1, 0, 2, 3, 4], [1, 2, 3, 4, 0]
    task = tasks.get("word-problem", generators=[swap, ring])
    assert task.vocabulary == ("10234", "12340")
    assert (
        len(set(task.machine.run(torch.randint(2, (1, 5000), generator=torch.Generator().manual_seed(0)))[0].tolist()))
        == 120
    )
    assert tasks.get("word-problem", group="Z6", generators=[[1, 2, 3, 4, 5, 0]]).vocabulary == ("1",)


ORDERS = {
    **{f"S{n}": factorial(n) for n in range(3, 10)},
    **{f"A{n}": factorial(n) // 2 for n in range(3, 10)},
    **{f"C{n}": n for n in range(2, 31)},
    **{f"D{n}": 2 * n for n in range(3, 21)},
    **{f"Z{p}^{k}": p**k for p, most in ((2, 5), (3, 4), (5, 4)) for k in range(1, most + 1)},
    "V4": 4,
    "Q8": 8,
    "Q16": 16,
    "Q32": 32,
    "F20": 20,
    "F21": 21,
    "M11": 7920,
    "M12": 95040,
    **{f"PSL(2,{q})": q * (q * q - 1) // (1 + q % 2) for q in (2, 3, 4, 5, 7, 8, 9, 11)},
    "PSL(3,2)": 168,
    "PSL(3,3)": 5616,
    "PSL(3,4)": 20160,
    "PSL(3,5)": 372000,
}
"""The 94 groups of the collection that users of lm-eval ask for."""


def test_groups_by_name():
    assert len(ORDERS) == 94
    for name, order in ORDERS.items():
        if order < 10_000:
            elements = group_elements(name)
            assert len(elements) == order, name
            assert elements[0].tolist() == list(range(elements.shape[1]))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, order in ORDERS.items() if order >= 10_000])
def test_large_groups_by_name(name):
    task = tasks.get("word-problem", group=name, generators="standard")
    assert task.outputs == ORDERS[name]
    batch = task.sample(30, 4, torch.Generator().manual_seed(0))
    assert torch.equal(task.machine.run(batch.tokens), task.answer(batch.tokens))


def test_elements_are_in_the_order_of_their_notation():
    """So that the strings and answers of a task are what they were when groups were listed and not generated."""
    assert group_elements("S4").tolist() == list(map(list, permutations(range(4))))
    assert group_elements("Z12").tolist() == [[(i + g) % 12 for i in range(12)] for g in range(12)]


@pytest.mark.parametrize("name", ["Q16", "F21", "PSL(2,8)", "S3xZ2^2", "M11"])
def test_the_oracle_is_a_product_of_permutations(name):
    task = tasks.get("word-problem", group=name, generators="inverses")
    words = task.sample(9, 5, torch.Generator().manual_seed(0)).tokens
    for word, answer in zip(words.tolist(), task.answer(words)[:, -1].tolist(), strict=True):
        points = np.arange(task.letters.shape[1])
        for letter in word:
            points = task.letters[letter][points]
        assert points.tolist() == task.permutations[answer].tolist()


def test_pairs_are_held_out():
    task = tasks.get("word-problem", group="S3xS3", generators="inverses", held_out_pairs=[[0, 2], [4, 1]])
    assert (task.outputs, len(task.vocabulary)) == (36, 6)
    tasks.check(task)

    def has_one(tokens):
        return [any(pair in ([0, 2], [4, 1]) for pair in map(list, pairwise(word))) for word in tokens.tolist()]

    assert not any(has_one(task.sample(8, 200, torch.Generator().manual_seed(0)).tokens))
    for length in (2, 8, 40):
        assert all(has_one(task.test_set(length, 200).tokens))
    with pytest.raises(LengthError, match="length must be at least 2"):
        task.check(1)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"group": "Q9"}, "needs n in 8, 16, 32, got Q9"),
        ({"group": "B5"}, "must be Zn or Cn"),
        ({"group": "PSL(2,5"}, "must be Zn or Cn"),
        ({"group": "S3x"}, "must be Zn or Cn"),
        ({"group": "S7"}, "at most 20,000,000 entries in a machine's table, got 25,401,600"),
        ({"group": "Z900xZ900"}, "moves at most 1000 points"),
        ({"group": "Z1"}, "got Z1"),
        ({"generators": "some"}, "generators must be .* got 'some'"),
        ({"group": "A5", "generators": [[1, 0, 2, 3, 4]]}, "permutations in A5"),
        ({"generators": []}, "permutations in S5"),
        ({"group": "Z3", "held_out_pairs": [[0, 3]]}, r"pairs of symbols 0\.\.2, at least one, got \[\[0, 3\]\]"),
        (
            {"group": "S3", "generators": "standard", "held_out_pairs": [[0, 1], [1, 0]]},
            r"training sees 4 of 6 elements\. Hold fewer out",
        ),
    ],
)
def test_other_groups_are_refused(params, message):
    with pytest.raises(Error, match=message):
        tasks.get("word-problem", **params)
