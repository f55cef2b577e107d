"""The study of what a network must have learned to be consolidated."""

from dataclasses import replace

import proof_learning
import torch

from lengthwise import lab, recipes


def test_without_a_step_of_training_nothing_is_learned(tmp_path):
    """The step by nothing leaves every weight as it was drawn, and no such network is taken."""
    recipe = recipes.get(proof_learning.__file__, scale="smoke")
    assert len(recipe.experiments) == 2 * 6 * 2
    mine = [e for e in recipe.experiments if e.model.name in ("rnn", "gru") and e.task.name == "parity"]
    longer = replace(mine[0], training=replace(mine[0].training, steps=3))
    runs = [o.run for o in lab.run([*mine, longer], tmp_path, workers=1, device="cpu")]
    drawn, stepped, *_, longer_run = (lab.load_model(run).state_dict() for run in runs)
    assert all(torch.equal(drawn[name], longer_run[name]) for name in drawn)
    assert any(not torch.equal(drawn[name], stepped[name]) for name in drawn)
    runs.pop()
    (panel,) = recipe.panels(runs)
    assert [row["taken"] for row in panel.data] == [False] * 4
    assert panel.finding == "parity: 0 of 4 networks are consolidated or proved as learned."
