"""Drawing one of many: the fast way is that of a running sum, so that stories stay what their seeds mean."""

import numpy as np
import pytest

from lengthwise.tasks.boxes.story_sampler import pick, take


@pytest.mark.parametrize(
    ("rows", "entries", "share"), [(1, 1, 1.0), (200, 7, 0.5), (50, 100, 0.02), (3, 4, 0.0), (0, 4, 1.0)]
)
def test_a_true_entry_is_picked_as_a_running_sum_would(rows, entries, share):
    rng = np.random.default_rng(0)
    mask, u = rng.random((rows, entries)) < share, rng.random(rows)
    rank = (u * mask.sum(1)).astype(int)
    assert pick(mask, u).tolist() == (mask.cumsum(1) > rank[:, None]).argmax(1).tolist()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_taking_several_is_picking_one_after_another(share):
    rng = np.random.default_rng(1)
    candidates = rng.random((300, 40)) < share
    n = candidates.sum(1)
    j = np.minimum(rng.poisson(3, len(n)), n)
    one_by_one, draws = candidates.copy(), np.random.default_rng(2)
    rows = np.flatnonzero(j < n)
    kept = np.zeros_like(candidates[rows])
    left = candidates[rows]
    for i in range(int(j[rows].max(initial=0))):
        live = np.flatnonzero(j[rows] > i)
        chosen = pick(left[live], draws.random(len(live)))
        kept[live, chosen], left[live, chosen] = True, False
    one_by_one[rows] = kept
    take(candidates, n, j, np.random.default_rng(2))
    assert (candidates == one_by_one).all()
    assert (candidates.sum(1) == j).all()
