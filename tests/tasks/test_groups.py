"""Groups as permutations, and their word problems."""

from __future__ import annotations

import pytest
import torch

from lengthwise import Error, tasks
from lengthwise.automata import transition_monoid
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


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"group": "Q8"}, "must be Zn, Sn or An"),
        ({"group": "S7"}, r"2\.\.6, got S7"),
        ({"group": "Z1"}, "got Z1"),
        ({"generators": "some"}, "generators must be 'all' or a list of lists of whole numbers, got 'some'"),
        ({"group": "A5", "generators": [[1, 0, 2, 3, 4]]}, "permutations in A5"),
        ({"generators": []}, "permutations in S5"),
    ],
)
def test_other_groups_are_refused(params, message):
    with pytest.raises(Error, match=message):
        tasks.get("word-problem", **params)
