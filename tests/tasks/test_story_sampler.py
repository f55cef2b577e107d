"""Drawing one of many: the fast way is that of a running sum, so that stories stay what their seeds mean."""

import numpy as np
import pytest

from lengthwise.tasks.boxes.story_sampler import pick


@pytest.mark.parametrize(
    ("rows", "entries", "share"), [(1, 1, 1.0), (200, 7, 0.5), (50, 100, 0.02), (3, 4, 0.0), (0, 4, 1.0)]
)
def test_a_true_entry_is_picked_as_a_running_sum_would(rows, entries, share):
    rng = np.random.default_rng(0)
    mask, u = rng.random((rows, entries)) < share, rng.random(rows)
    rank = (u * mask.sum(1)).astype(int)
    assert pick(mask, u).tolist() == (mask.cumsum(1) > rank[:, None]).argmax(1).tolist()
