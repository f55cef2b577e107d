"""Strings with symbol probabilities of their own."""

from itertools import pairwise

import pytest
import torch

from lengthwise import tasks
from lengthwise.errors import Error
from lengthwise.seeds import generator


def longest_run(row):
    best = here = 1
    for a, b in pairwise(row):
        here = here + 1 if a == b else 1
        best = max(best, here)
    return best


@pytest.mark.parametrize("name", ["parity", "cycle-navigation", "tomita-5", "d-2", "modular-arithmetic"])
def test_they_are_strings_of_the_task_with_its_own_answers(name):
    task = tasks.get(name, supervision="prefix")
    length = task.lengths(10, 14)[0]
    batch = task.sample_varied(length, 20, generator("varied"))
    assert batch.tokens.shape == (20, length)
    assert torch.equal(batch.targets, task.answer(batch.tokens))
    assert bool(batch.mask[:, -1].all())
    if task.answered is not None:
        state = task.machine.run(batch.tokens)[:, -1]
        assert bool(task.answered[torch.as_tensor(state)].all())


def test_the_seed_alone_decides():
    task = tasks.get("parity")
    first, again, other = (task.sample_varied(30, 9, generator("varied", seed)).tokens for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_runs_and_patterns_occur_that_uniform_strings_lack():
    task = tasks.get("parity")
    varied = task.sample_varied(40, 400, generator("varied")).tokens.tolist()
    uniform = task.draw(40, 400, generator("uniform")).tolist()
    runs = [sum(longest_run(row) >= 12 for row in rows) for rows in (varied, uniform)]
    assert runs[0] > 100
    assert runs[1] < 20
    assert any(row in ([0, 1] * 20, [1, 0] * 20) for row in varied)


def test_what_is_decided_for_good_is_put_off():
    """Of brackets drawn freely, nearly all strings of 20 are wrong after a few."""
    task = tasks.get("d-2")
    lost = int(task.machine.run(torch.tensor([[1]]))[0, -1])  # a bracket is closed that none opened
    dead = torch.as_tensor(task.machine.run(task.sample_varied(20, 1000, generator("varied")).tokens)) == lost
    symbols = (~dead).sum(1)
    assert 0.2 < float((symbols == 20).float().mean()) < 0.8
    assert all(int(((symbols >= k) & (symbols < k + 5)).sum()) > 50 for k in (0, 5, 10, 15))


def test_a_task_without_a_machine_has_none():
    with pytest.raises(Error, match=r"training\.varied"):
        tasks.get("selective-copy").sample_varied(40, 4, generator("varied"))
