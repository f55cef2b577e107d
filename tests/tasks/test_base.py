"""What every task inherits: strings held out for the test, and rows of unequal length side by side."""

import pytest
import torch

from lengthwise import Error
from lengthwise.tasks import Task, base
from lengthwise.tasks.base import FRUITLESS, TEST_BLOCK

from ..seeded import seeded


class Digits(Task):
    """Random digits; a string is kept for the test when its digits sum to a multiple of `modulus`."""

    name, params, vocabulary, outputs = "digits", {}, tuple("0123456789"), 10

    def __init__(self, modulus):
        self.modulus = modulus
        self.draws = []

    def draw(self, length, batch, generator):
        self.draws.append(batch)
        return torch.randint(10, (batch, length), generator=generator)

    def answer(self, tokens):
        return tokens

    def held_out(self, tokens):
        return None if self.modulus is None else tokens.where(tokens < 10, 0).sum(1) % self.modulus == 0


class Ragged(Digits):
    """Rows of one to `length` digits, then padding (10)."""

    vocabulary, padding = (*"0123456789", "."), 10

    def draw(self, length, batch, generator):
        tokens = super().draw(length, batch, generator)
        ends = torch.randint(1, length + 1, (batch, 1), generator=generator)
        tokens[torch.arange(length) >= ends] = 10
        return tokens[:, : int(ends.max())]


@pytest.mark.parametrize("kind", [Digits, Ragged])
def test_the_test_set_in_parts_is_the_test_set(kind, monkeypatch):
    task = kind(3)
    whole = task.test_set(6, 500)
    monkeypatch.setattr(base, "TEST_PART", 100 * task.bytes_of(6))
    parts = list(task.test_parts(6, 500))
    assert len(parts) > 3
    assert max(len(part.tokens) for part in parts) < 250
    for joined, each in zip(whole, zip(*parts, strict=True), strict=True):
        assert torch.equal(joined, torch.cat(each))


def test_a_task_s_own_test_set_is_what_is_tested(monkeypatch):
    class Ones(Digits):
        def test_set(self, length, count, seed=0):
            return self.label(torch.ones(count, length, dtype=torch.long))

    task = Ones(None)
    monkeypatch.setattr(base, "TEST_PART", 100 * task.bytes_of(6))
    parts = list(task.test_parts(6, 250))
    assert [len(part.tokens) for part in parts] == [100, 100, 50]
    for joined, each in zip(task.test_set(6, 250), zip(*parts, strict=True), strict=True):
        assert torch.equal(joined, torch.cat(each))


def test_a_large_test_set_is_never_whole(monkeypatch):
    task, drawn = Digits(None), []
    monkeypatch.setattr(task, "draw", lambda n, batch, generator: drawn.append(batch) or torch.zeros(batch, n).long())
    monkeypatch.setattr(base, "TEST_PART", 1)
    first = next(task.test_parts(6, 10**9))
    assert len(first.tokens) == TEST_BLOCK
    assert drawn == [TEST_BLOCK]


@pytest.mark.parametrize("kind", [Digits, Ragged])
def test_training_and_test_share_no_string(kind):
    task = kind(3)
    train, test = task.sample(6, 500, seeded(0)), task.test_set(6, 500)
    assert len(train.tokens) == len(test.tokens) == 500
    assert not task.held_out(train.tokens).any()
    assert task.held_out(test.tokens).all()
    written = [{task.write(row) for row in batch.tokens} for batch in (train, test)]
    assert not written[0] & written[1]


def test_only_what_is_missing_is_drawn_again():
    task = Digits(2)
    task.sample(6, 64, seeded(0))
    assert task.draws[0] == 64 > task.draws[1]
    assert all(later <= earlier < 64 for earlier, later in zip(task.draws[1:], task.draws[2:], strict=False))
    assert all(
        torch.equal(a, b) for a, b in zip(task.sample(6, 9, seeded(1)), task.sample(6, 9, seeded(1)), strict=True)
    )


def test_without_held_out_strings_nothing_is_drawn_twice():
    task = Digits(None)
    assert torch.equal(task.sample(6, 50, seeded(4)).tokens, torch.randint(10, (50, 6), generator=seeded(4)))
    assert task.draws == [50]


def test_rows_are_padded_to_the_longest_and_no_further():
    task = Ragged(None)
    joined = task.join([torch.tensor([[1, 2, 10, 10]]), torch.tensor([[3, 4, 5], [6, 10, 10]])])
    assert joined.tolist() == [[1, 2, 10], [3, 4, 5], [6, 10, 10]]
    assert [task.write(row) for row in joined] == ["12", "345", "6"]


def test_a_split_that_leaves_a_side_empty_is_refused():
    with pytest.raises(Error, match="no string for training: all are held out"):
        Digits(1).sample(6, 4, seeded(0))
    task = Digits(10**6)
    task.held_out = lambda tokens: torch.zeros(len(tokens), dtype=torch.bool)
    with pytest.raises(Error, match="no string for the test"):
        task.test_set(6, 4)
    assert len(task.draws) == FRUITLESS
