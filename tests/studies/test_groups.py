"""The study of words of groups."""

import groups

from lengthwise import lab, recipes


def test_every_model_has_a_share_and_a_verdict(tmp_path):
    recipe = recipes.get(groups.__file__, scale="smoke").only(["A5"])
    runs = [o.run for o in lab.run(recipe.experiments, tmp_path, workers=1, device="cpu")]
    (panel,) = recipe.panels(runs)
    assert panel.columns == ["group", "model", "8", "32", "learned", "consolidated"]
    assert [tuple(row[:2]) for row in panel.rows] == [("A5", model) for model in groups.FAST]
    assert all(row[4] == "1 refuted" for row in panel.rows)
    # Nothing that has learned nothing is taught; of other models nothing is asked.
    assert all(row[5] == ("1 refused" if row[1] == "automaton" else "–") for row in panel.rows)
