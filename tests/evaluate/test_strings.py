"""Counting right strings: what is right, and in how large batches."""

import torch

from lengthwise import tasks
from lengthwise.evaluate import StringScores, score_strings
from lengthwise.tasks.base import Batch
from lengthwise.train.counting import TOKENS, batch_size
from lengthwise.train.scoring import right

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


def test_batches_fit_the_memory():
    assert batch_size(40, 512, 16 * GIB) == 512
    assert batch_size(4000, 512, 16 * GIB) * 4000 <= TOKENS
    assert batch_size(4000, 512, 4 * GIB) == 1
    assert batch_size(10**7, 512, GIB) == 1
    sizes = [batch_size(n, 512, 8 * GIB) for n in range(1, 3000, 50)]
    assert sizes == sorted(sizes, reverse=True)


def test_right_is_the_last_asked_place():
    task = tasks.get("parity", supervision="prefix")
    targets = torch.tensor([[0, 1, 1], [1, 0, 0]])
    mask = torch.tensor([[True, True, False], [True, False, True]])
    found = torch.nn.functional.one_hot(torch.tensor([[1, 1, 0], [0, 1, 0]]), 2).float()
    assert right(found, Batch(targets, targets, mask), task).tolist() == [True, True]
    found = torch.nn.functional.one_hot(torch.tensor([[0, 0, 1], [1, 0, 1]]), 2).float()
    assert right(found, Batch(targets, targets, mask), task).tolist() == [False, False]
