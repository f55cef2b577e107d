"""The study of what a tree learns of spans."""

import asked_spans
import pytest

from lengthwise import lab, recipes


@pytest.mark.parametrize("modulus", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_each_way_of_asking_has_shares_and_verdicts(tmp_path, modulus):
    recipe = recipes.get(asked_spans.__file__, scale="smoke", settings=[f"modulus={modulus}"])
    runs = [o.run for o in lab.run(recipe.experiments, tmp_path, workers=1, device="cpu")]
    panel, learning = recipe.panels(runs)
    assert panel.columns == ["asked about", "8", "40", "learned", "settled", "training"]
    assert [(row[0], *row[3:5]) for row in panel.rows] == [(asked, "refuted", "refused") for asked in asked_spans.ASKED]
    assert [list(each["seeds"][0]["accuracy"]) for each in panel.data] == [["8", "40"]] * 2
    assert learning.title == "Learning it"


@pytest.mark.parametrize("modulus", [3, 5])
def test_the_two_differ_in_what_is_asked_alone(modulus):
    spans, whole = (asked_spans.planned("laptop", asked, modulus)[0] for asked in asked_spans.ASKED)
    assert spans.training.but(spans=False) == whole.training
    assert (spans.model, spans.data, spans.tests) == (whole.model, whole.data, whole.tests)
