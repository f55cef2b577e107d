"""Which lengths are drawn, and how often."""

import json
from collections import Counter

import pytest

from lengthwise.errors import Error
from lengthwise.lab import Training
from lengthwise.train.curriculum import WINDOW, GrowingLengths, make_curriculum
from lengthwise.train.settings import Curriculum


@pytest.mark.parametrize("lengths", [list(range(1, 32)), [16, 24, 40, 128], [5]])
def test_log_uniform_draws_each_length_in_inverse_proportion_to_it(lengths):
    drawn = make_curriculum(Training.of(curriculum="log-uniform").curriculum, lengths, 100)
    count = 20000
    found = Counter(drawn.length(step) for step in range(count))
    assert set(found) <= set(lengths)
    total = sum(1 / n for n in lengths)
    for n in lengths:
        share = 1 / n / total
        assert found[n] / count == pytest.approx(share, abs=5 * (share * (1 - share) / count) ** 0.5)


def test_log_uniform_is_a_function_of_the_step_alone():
    first, again = (
        make_curriculum(Training.of(curriculum="log-uniform", lr=lr).curriculum, [1, 2, 3, 7], 100)
        for lr in (1e-3, 1e-4)
    )
    assert [first.length(step) for step in range(50)] == [again.length(step) for step in reversed(range(50))][::-1]
    assert first.state() == {}


def test_an_unknown_curriculum_is_refused():
    with pytest.raises(Error, match="must be 'uniform', 'log-uniform' or 'growing', got 'steep'"):
        Training.of(curriculum="steep")


def test_growing_goes_back_when_too_little_is_right_and_grows_again():
    growing = GrowingLengths([1, 3, 5, 7], Curriculum(grow_from=3, grow_at=0.9, shrink_at=0.5), 1)

    def hear(accuracy, at=None):
        for _ in range(WINDOW):
            growing.learn(growing.lengths[growing.longest] if at is None else at, accuracy, 1)
        return growing.lengths[growing.longest]

    assert [hear(0.95) for _ in range(3)] == [5, 7, 7]
    assert hear(0.7) == 7
    assert hear(0.1, at=5) == 7
    assert [hear(0.4) for _ in range(4)] == [5, 3, 3, 3]
    assert hear(1.0) == 5


def test_the_longer_half_of_the_lengths_may_come_late():
    """Everything is right: two of four lengths are there at once, and two come in the second half of 160 steps."""
    settings = Training.of(curriculum="growing", grow_from=1, grow_at=0.9, shrink_at=0.5, grow_late=0.5)
    growing = make_curriculum(settings.curriculum, [1, 3, 5, 7], 160)
    assert isinstance(growing, GrowingLengths)
    longest = []
    for step in range(160):
        growing.learn(growing.lengths[growing.longest], 1.0, step + 1)
        longest.append(growing.lengths[growing.longest])
    first = {length: longest.index(length) + 1 for length in (3, 5, 7)}
    assert all(at < first[length] <= at + WINDOW for length, at in ((3, 0), (5, 80), (7, 120)))
    for _ in range(WINDOW):
        growing.learn(7, 0.1, 160)
    assert growing.lengths[growing.longest] == 5


def test_what_was_learned_of_lengths_outlives_a_stop():
    settings = Curriculum(grow_from=1, grow_at=0.9, shrink_at=0.5)
    whole, again = (GrowingLengths([1, 3, 5, 7], settings, 1) for _ in range(2))

    def hear(growing, accuracies):
        for accuracy in accuracies:
            growing.learn(growing.lengths[growing.longest], accuracy, 1)
            yield growing.longest

    assert list(hear(whole, [1.0] * (WINDOW + 3)))[-1] == 1
    again.restore(json.loads(json.dumps(whole.state())))
    rest = [1.0] * (WINDOW - 3) + [0.2] * WINDOW
    assert list(hear(again, rest)) == list(hear(whole, rest))
    assert whole.longest == 1


def test_shrinking_begins_below_growing():
    with pytest.raises(Error, match="shrink_at must be at least 0 and below"):
        Training.of(shrink_at=0.9, grow_at=0.9)
