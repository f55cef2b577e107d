"""What the laws do not say of symbol probabilities: they sum to 1, however roughly they were written."""

import pytest

from lengthwise import tasks


@pytest.mark.parametrize("off", [9e-7, -9e-7])
def test_probabilities_that_nearly_sum_to_one_are_made_to(off):
    task = tasks.get("modular-sum", modulus=3, probabilities=[1 + off, 0, 0])
    assert task.baseline(100_000) == pytest.approx(1.0, abs=1e-9)
    assert tasks.from_regex("(ab|ba)*", probabilities=[0.5, 0.5 + off]).weights.sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("size", [2, 3, 7, 10, 60])
def test_recorded_probabilities_rebuild_the_task_to_the_bit(size):
    for rough in (
        [1 / size] * size,
        [round(1 / size, 8)] * size,
        [2 * (i + 1) / size / (size + 1) for i in range(size)],
    ):
        task = tasks.get("modular-sum", modulus=size, probabilities=rough)
        assert tasks.get(task.name, **task.params).params == task.params
