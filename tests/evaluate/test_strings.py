"""Counting right strings: what is right, and in how large batches."""

import pytest
import torch

from lengthwise import tasks
from lengthwise.evaluate import StringScores, score_strings
from lengthwise.tasks.base import Batch
from lengthwise.train.counting import TOKENS, batch_size, count_right
from lengthwise.train.scoring import loss, right

CPU = torch.device("cpu")
GIB = 1 << 30


class Oracle(torch.nn.Module):
    """Answers rightly but at the lengths in `wrong`; notes the batches it sees."""

    def __init__(self, task, wrong=()):
        super().__init__()
        self.task, self.wrong, self.seen = task, wrong, []

    def forward(self, tokens, last=False):
        self.seen.append(tuple(tokens.shape))
        answer = self.task.answer(tokens)
        if tokens.shape[1] in self.wrong:
            answer = 1 - answer
        found = torch.nn.functional.one_hot(answer, 2) * 4.0 - 2
        return found[:, -1:] if last else found


def test_evaluate_counts_per_length():
    task = tasks.get("parity")
    oracle = Oracle(task, wrong=[9])
    known, heard = StringScores({"4": 17}, {"4": 2}), []
    found = score_strings(
        oracle, task, (4, 9, 30), 100, 0, device=CPU, known=known, after=lambda of: heard.append(dict(of.correct))
    )
    assert found == ({"4": 17, "9": 0, "30": 100}, {"4": 2})
    assert heard == [{"4": 17, "9": 0}, {"4": 17, "9": 0, "30": 100}]
    assert known == ({"4": 17}, {"4": 2})
    assert all(shape[1] != 4 for shape in oracle.seen)


def test_every_model_sees_the_same_strings():
    task = tasks.get("parity")
    assert torch.equal(task.test_set(50, 10).tokens, tasks.get("parity").test_set(50, 200).tokens[:10])
    assert not torch.equal(task.test_set(50, 10).tokens, task.test_set(50, 10, seed=1).tokens)


def test_batches_fit_the_memory():
    assert batch_size(40, 512, 16 * GIB) == 512
    assert batch_size(4000, 512, 16 * GIB) * 4000 <= TOKENS
    assert batch_size(4000, 512, 4 * GIB) == 1
    assert batch_size(10**7, 512, GIB) == 1
    sizes = [batch_size(n, 512, 8 * GIB) for n in range(1, 3000, 50)]
    assert sizes == sorted(sizes, reverse=True)


def test_the_loss_is_a_mean_over_asked_places():
    task = tasks.get("parity", supervision="prefix")
    found = torch.randn(3, 5, 2)
    targets = torch.randint(2, (3, 5))
    mask = torch.rand(3, 5) < 0.5
    mask[0, 0] = True
    expected = torch.nn.functional.cross_entropy(found[mask], targets[mask])
    torch.testing.assert_close(loss(found, Batch(targets, targets, mask), task), expected)


def test_right_is_the_last_asked_place():
    task = tasks.get("parity", supervision="prefix")
    targets = torch.tensor([[0, 1, 1], [1, 0, 0]])
    mask = torch.tensor([[True, True, False], [True, False, True]])
    found = torch.nn.functional.one_hot(torch.tensor([[1, 1, 0], [0, 1, 0]]), 2).float()
    assert right(found, Batch(targets, targets, mask), task).tolist() == [True, True]
    found = torch.nn.functional.one_hot(torch.tensor([[0, 0, 1], [1, 0, 1]]), 2).float()
    assert right(found, Batch(targets, targets, mask), task).tolist() == [False, False]


def test_a_set_counts_only_if_every_place_is_right():
    task = tasks.get("tomita-1", protocol="next")
    batch = task.test_set(6, 4)
    found = torch.where(batch.targets, 2.0, -2.0)
    assert right(found, batch, task).all()
    found[1, 2, 0] *= -1
    assert right(found, batch, task).tolist() == [True, False, True, True]
    assert loss(found, batch, task) > loss(torch.where(batch.targets, 2.0, -2.0), batch, task)


@pytest.mark.parametrize("length", [5, 64])
def test_small_batches_count_the_same(monkeypatch, length):
    task = tasks.get("parity")
    batch = task.test_set(length, 37)
    whole = Oracle(task)
    assert count_right(whole, task, batch, device=CPU)[0] == 37
    monkeypatch.setattr("lengthwise.train.counting.TOKENS", 3 * length)
    pieces = Oracle(task)
    assert count_right(pieces, task, batch, device=CPU) == pytest.approx(count_right(whole, task, batch, device=CPU))
    assert max(shape[0] for shape in pieces.seen) == 3
