"""The study of a chunk size that training learns."""

from __future__ import annotations

import learned_chunk_size

from lengthwise import lab, recipes


def test_the_choice_stands_beside_what_was_given(tmp_path):
    recipe = recipes.get(learned_chunk_size.__file__, scale="smoke")
    mine = [e for e in recipe.experiments if e.task.name == "parity"]
    runs = [outcome.run for outcome in lab.run(mine, tmp_path, workers=1) if outcome.run]
    assert len(runs) == len(mine) == 3
    (panel,) = recipe.panels(runs)
    chosen, *given = panel.data
    assert chosen["model"] == "chosen from 2–4"
    assert chosen["probabilities"][0].keys() == {"2", "3", "4"}
    assert abs(sum(chosen["probabilities"][0].values()) - 1) < 1e-3
    assert [row["model"] for row in given] == ["C=2", "C=3"]
    assert all(row["probabilities"] == [] for row in given)
    # The same strings for all, or the comparison means nothing.
    assert len({e.tests.lengths for e in mine}) == len({e.training.curriculum.lengths for e in mine}) == 1
    table = recipes.get("regulargpt", "table-1", "smoke")
    assert {e.hash for e in mine[1:]} <= {e.hash for e in table.experiments}
