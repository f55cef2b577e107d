"""Tasks keep the pace `benchmarks/tasks.py` promises."""

import importlib.util
from pathlib import Path

import pytest
import torch

from lengthwise import tasks

SPEC = importlib.util.spec_from_file_location("task_bench", Path(__file__).parents[2] / "benchmarks" / "tasks.py")
bench = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bench)


@pytest.fixture(autouse=True)
def one_core():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


PACES = [
    *((bench.throughput, *row) for row in bench.BOUNDS if row[2] is not None),
    *((bench.problems_a_second, *row) for row in bench.PROBLEM_BOUNDS),
]


@pytest.mark.parametrize(("rounds", "part"), [(2, 10), pytest.param(5, 1, marks=[pytest.mark.slow, pytest.mark.alone])])
@pytest.mark.parametrize(("pace", "name", "params", "bound"), PACES)
def test_promised_throughput(pace, name, params, bound, rounds, part):
    """A tenth of it anywhere. The best of three: a busy machine slows a run down, nothing speeds one up."""
    assert max(pace(tasks.get(name, **params), rounds) for _ in range(3)) >= bound / part
