"""The study of pairs held out of training."""

import held_out_pairs

from lengthwise import lab, recipes


def test_every_model_has_a_share_and_a_verdict(tmp_path):
    recipe = recipes.get(held_out_pairs.__file__, scale="smoke").only(["automaton", "pd-ssm"])
    runs = [o.run for o in lab.run(recipe.experiments, tmp_path, workers=1, device="cpu")]
    (panel,) = recipe.panels(runs)
    assert panel.columns == ["model", "8", "32", "verdicts"]
    assert [row[0] for row in panel.rows] == ["automaton", "pd-ssm"]
    assert all(row[-1] == "1 refuted" for row in panel.rows)
