"""One experiment, one result: whatever the caller's threads, the workers, and where it was stopped."""

import os
import signal

import pytest
import torch

from lengthwise import lab
from lengthwise.train import Interrupted


@pytest.fixture
def wide(quick):
    """Two runs whose sums are long enough to be shared among threads."""
    return quick(
        "transformer",
        seeds=2,
        train_length=40,
        lengths=[30, 40],
        test_lengths="48",
        steps=6,
        batch=64,
        model_settings={"width": 64, "layers": 1},
    )


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2, "the caller's number of threads is the caller's"
    torch.set_num_threads(before)


class Interrupting:
    """Presses Ctrl-C when the first step is heard of."""

    def __init__(self):
        self.pressed = False

    def begin(self, experiment): ...

    def waiting(self, experiment): ...

    def end(self, experiment, outcome): ...

    def advance(self, progress):
        if not self.pressed:
            self.pressed = True
            os.kill(os.getpid(), signal.SIGINT)


def weights(outcomes):
    assert all(outcome.run for outcome in outcomes), outcomes
    return [outcome.run.tensors() for outcome in outcomes]


def same(a, b):
    return all(torch.equal(x[name], y[name]) for x, y in zip(a, b, strict=True) for name in x)


def test_the_number_of_workers_and_of_the_callers_threads_changes_nothing(tmp_path, wide, two_threads):
    one = lab.run(wide, tmp_path / "one", workers=1)
    two = lab.run(wide, tmp_path / "two", workers=2)
    assert same(weights(one), weights(two))
    assert [outcome.run.result["machine"]["threads"] for outcome in [*one, *two]] == [1] * 4
    # This says something only if the threads have a say where they are asked for.
    asked = [e for e in wide if e.seed == 0]
    other = [lab.Experiment(e.data, e.model, e.training.but(threads=2), e.tests, e.seed) for e in asked]
    assert not same(weights(lab.run(other, tmp_path / "threads", workers=1)), weights(one)[:1])


@pytest.mark.parametrize(("first", "then"), [(1, 2), (2, 1)])
def test_stopped_under_so_many_workers_and_ended_under_others(tmp_path, wide, two_threads, first, then):
    whole = lab.run(wide, tmp_path / "whole", workers=1)
    with pytest.raises(Interrupted):
        lab.run(wide, tmp_path / "pieces", workers=first, progress=Interrupting())
    assert same(weights(lab.run(wide, tmp_path / "pieces", workers=then)), weights(whole))
