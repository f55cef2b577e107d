"""One sequence divided among processes: scans, models, losses and gradients are those of one process."""

import subprocess
import sys
from pathlib import Path

import pytest

ONE_RANK = Path(__file__).parent / "one_rank.py"


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_processes_equal_one(size, tmp_path):
    """As `one_rank.py` has it; that and more is tested with threads in tests/ops and tests/models."""
    words = [sys.executable, str(ONE_RANK)]
    ranks = [
        subprocess.Popen([*words, str(rank), str(size), str(tmp_path / "group")], stderr=subprocess.PIPE, text=True)
        for rank in range(size)
    ]
    try:
        said = [rank.communicate(timeout=500)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * size, "\n".join(said)
