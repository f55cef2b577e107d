"""The figures of a table, against values worked out by hand or published elsewhere."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lengthwise import Error
from lengthwise.lab.statistics import accuracy, overflowed, ranges, score, summary, wilson


def run(last: dict[int, int], samples: int = 10, best: dict[int, int] | None = None):
    text = lambda d: {str(k): v for k, v in d.items()}  # noqa: E731
    return SimpleNamespace(
        result={
            "samples": samples,
            "checkpoints": {"last": {"correct": text(last)}, "best": {"correct": text(best or last)}},
            "baseline": {str(n): 0.5 + n / 1000 for n in last},
        }
    )


@pytest.mark.parametrize(
    ("correct", "n", "low", "high"),
    # The classical examples of the literature on binomial intervals, to their four printed digits.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_published(correct, n, low, high):
    assert wilson(correct, n, z=1.959964) == pytest.approx((low, high), abs=6e-5)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_solves_its_equation(case):
    correct, n = case
    low, high = wilson(correct, n)
    assert 0 <= low <= correct / n <= high <= 1
    for p in (low, high):  # the ends are where the normal test of p just fails: (a − p)² n = z² p (1 − p)
        assert math.isclose((correct / n - p) ** 2 * n, 1.96**2 * p * (1 - p), rel_tol=1e-6, abs_tol=1e-9)
    assert wilson(n - correct, n) == pytest.approx((1 - high, 1 - low))


def test_wilson_refuses_nonsense():
    for correct, n in [(3, 2), (-1, 2), (0, 0)]:
        with pytest.raises(Error, match="correct must be in"):
            wilson(correct, n)


def test_score_is_the_unweighted_mean_over_lengths():
    r = run({1: 10, 2: 5, 400: 0})
    assert accuracy(r, 2) == 0.5
    assert score(r, [1, 2, 400]) == pytest.approx(0.5)
    assert score(r, [1, 2]) == pytest.approx(0.75)


def test_summary_by_hand():
    s = summary([run({41: 10, 42: 8}), run({41: 6, 42: 4})], [41, 42])
    assert (s.mean, s.max, s.seeds, s.strings) == (pytest.approx(0.7), pytest.approx(0.9), 2, 40)
    assert s.std == pytest.approx(math.sqrt((0.2**2 + 0.2**2) / 1))  # sample, not population
    assert (s.low, s.high) == wilson(28, 40)
    assert s.baseline == pytest.approx(0.5415)


def test_one_seed_has_no_deviation_and_checkpoints_differ():
    r = run({41: 3}, best={41: 9})
    assert summary([r], [41]).std is None
    assert summary([r], [41]).mean == pytest.approx(0.3)
    assert summary([r], [41], "best").mean == pytest.approx(0.9)
    with pytest.raises(Error, match="a run and a length"):
        summary([], [41])


def test_overflows_are_summed_over_runs_and_lengths():
    first, second, old = run({41: 3, 42: 3, 43: 3}), run({41: 3, 42: 3, 43: 3}), run({41: 3, 42: 3, 43: 3})
    first.result["checkpoints"]["last"]["overflowed"] = {"41": 2, "43": 7}
    second.result["checkpoints"]["last"]["overflowed"] = {"41": 1, "42": 4}
    first.result["checkpoints"]["best"]["overflowed"] = {}
    assert overflowed([first, second, old], [41, 42]) == 7
    assert overflowed([first, second], (43,)) == 7
    assert overflowed([first, second, old], [41, 42, 43], "best") == 0


@pytest.mark.parametrize(
    ("train", "lengths", "labels"),
    [
        ((1, 40), [*range(41, 501)], ["41–500"]),
        (
            (1, 40),
            [*range(1, 41), *range(41, 501, 20), 1000, 2000, 4000],
            ["1–40", "41–481", "1,000", "2,000", "4,000"],
        ),
        ((1, 40), [40, *range(41, 501, 20), 500], ["40", "41–481", "500"]),
        ((1, 40), [64, 128, 256, 512], ["64", "128", "256", "512"]),
        ((1, 40), [100, 200, 300, 400, 1000], ["100–400", "1,000"]),
        ((1, 40), [100, 200, 300], ["100", "200", "300"]),
        ((3, 39), [1, 2, 3, 39, 41, 43, 45, 47], ["1", "2", "3–39", "41–47"]),
        ((1, 40), [*range(41, 101), *range(120, 501, 20)], ["41–100", "120–500"]),
        ((1, 40), [41, 43, 47, 53, 59, 67, 71, 79, 83, 97], ["41–97"]),
        ((40, 40), [40, 500], ["40", "500"]),
    ],
)
def test_columns(train, lengths, labels):
    columns = ranges(train, lengths)
    assert [c.label for c in columns] == labels
    assert sorted(n for c in columns for n in c.lengths) == sorted(set(lengths))
    assert [c for c in columns if c.trained] == [c for c in columns if train[0] <= c.lengths[0] <= train[1]]


def test_below_training_is_not_beyond():
    columns = ranges((10, 20), [*range(1, 31), 100])
    assert [(c.label, c.trained, c.beyond) for c in columns] == [
        ("1–9", False, False),
        ("10–20", True, False),
        ("21–30", False, True),
        ("100", False, True),
    ]
