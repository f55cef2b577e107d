"""Which lengths are drawn, and how often."""

from collections import Counter

import pytest

from lengthwise.errors import Error
from lengthwise.lab import Training
from lengthwise.train.curriculum import WINDOW, GrowingLengths, make_curriculum


@pytest.mark.parametrize("lengths", [list(range(1, 32)), [16, 24, 40, 128], [5]])
def test_log_uniform_draws_each_length_in_inverse_proportion_to_it(lengths):
    drawn = make_curriculum(Training.of(curriculum="log-uniform").curriculum, lengths)
    count = 20000
    found = Counter(drawn.length(step) for step in range(count))
    assert set(found) <= set(lengths)
    total = sum(1 / n for n in lengths)
    for n in lengths:
        share = 1 / n / total
        assert found[n] / count == pytest.approx(share, abs=5 * (share * (1 - share) / count) ** 0.5)


def test_log_uniform_is_a_function_of_the_step_alone():
    first, again = (
        make_curriculum(Training.of(curriculum="log-uniform", lr=lr).curriculum, [1, 2, 3, 7]) for lr in (1e-3, 1e-4)
    )
    assert [first.length(step) for step in range(50)] == [again.length(step) for step in reversed(range(50))][::-1]
    assert first.state() == {}


def test_an_unknown_curriculum_is_refused():
    with pytest.raises(Error, match="must be 'uniform', 'log-uniform' or 'growing', got 'steep'"):
        Training.of(curriculum="steep")


def test_growing_goes_back_when_too_little_is_right_and_grows_again():
    growing = GrowingLengths([1, 3, 5, 7], grow_from=3, grow_at=0.9, shrink_at=0.5)

    def hear(accuracy, at=None):
        for _ in range(WINDOW):
            growing.learn(growing.lengths[growing.longest] if at is None else at, accuracy)
        return growing.lengths[growing.longest]

    assert [hear(0.95) for _ in range(3)] == [5, 7, 7]
    assert hear(0.7) == 7
    assert hear(0.1, at=5) == 7
    assert [hear(0.4) for _ in range(4)] == [5, 3, 3, 3]
    assert hear(1.0) == 5


def test_shrinking_begins_below_growing():
    with pytest.raises(Error, match="shrink_at must be at least 0 and below"):
        Training.of(shrink_at=0.9, grow_at=0.9)
