"""What a trained model says to Boxes: its own answers, their lengths, and the links of its heads."""

from __future__ import annotations

import json

import boxes_linked_words
import boxes_longer_stories as boxes_accuracy
import pytest
import torch

from lengthwise import lab, recipes
from lengthwise.errors import Error
from lengthwise.insight.boxes import AnswerScores, Score

LENGTHS = (1, 4, 20)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Every run of `chacal length` at smoke."""
    planned = recipes.get(boxes_accuracy.__file__, scale="smoke").experiments
    outcomes = lab.run(planned, tmp_path_factory.mktemp("runs"), workers=1)
    assert all(outcome.run for outcome in outcomes)
    return [outcome.run for outcome in outcomes]


def test_length(runs):
    recipe = recipes.get(boxes_accuracy.__file__, scale="smoke")
    panels = recipe.panels(runs)
    assert len(panels) == 2 * 4
    for panel, position in zip(panels, ["no positions"] * 4 + ["Transformer-XL positions"] * 4, strict=True):
        assert position in panel.title
        assert json.loads(json.dumps(panel.data, allow_nan=False))
    exact = panels[0].data["series"]
    assert set(exact) == {"Standard 2", "Standard 3", "ChaCAL 2"}
    assert exact["ChaCAL 2"]["x"] == [1, 4, 20]
    layers = panels[3].data["ChaCAL 2"]["layers"]
    assert sum(asked for _, asked in layers.values()) == 3 * 4
    assert not recipe.panels([])


@pytest.mark.parametrize("scale", ["smoke", "laptop", pytest.param("paper", marks=pytest.mark.slow)])
def test_length_trains_short_and_tests_long(scale):
    for experiment in recipes.get(boxes_accuracy.__file__, scale=scale).experiments:
        assert (experiment.task.name, experiment.task.params["form"]) == ("boxes", "advanced")
        assert experiment.training.curriculum.lengths == (1, 16)
        assert experiment.training.curriculum.kind == "log-uniform"
        assert max(experiment.tests.lengths) >= (20 if scale == "smoke" else 64)
        assert experiment.model.options["position"] != "learned"


def test_attention(tmp_path, monkeypatch):
    recipe = recipes.get(boxes_linked_words.__file__, scale="smoke")
    (planned,) = recipe.experiments
    known = recipes.get("chacal", "table-2", "smoke").experiments
    assert planned.hash in {e.hash for e in known}, "nothing is trained that Table 2 has not trained"
    (outcome,) = lab.run([planned], tmp_path, workers=1)
    assert outcome.run
    (panel,) = recipe.panels([outcome.run])
    layer, head = panel.data["drawn"]
    assert panel.data["layers"][layer]["mixer"] == "chain"
    shares = panel.data["truth"]["shares"][layer]
    assert shares[head] == max(shares)
    assert recipe.panels([]) == []
    sent = []
    monkeypatch.setattr(torch.nn.Module, "to", lambda model, *to: sent.append(to[0]) or model)
    recipe.panels([outcome.run], "cuda:1")
    assert "cuda:1" in sent


def test_the_lab_and_the_answers_agree(runs):
    """The same strings: what the lab counted while testing is what the models answer by themselves."""
    for run in runs:
        found = boxes_accuracy.score_at_each([run], LENGTHS, 4, "cpu")
        correct = run.result["checkpoints"]["last"]["correct"]
        assert {str(n): answers.exact.right for n, answers in found.items()} == {
            str(n): correct[str(n)] for n in LENGTHS
        }


ANSWERS = AnswerScores(
    Score(3, 8), Score(24, 64), {0: Score(20, 20), 1: Score(2, 25), 5: Score(1, 19)}, {1: Score(1, 2), 3: Score(2, 6)}
)


def test_shares_are_drawn_where_there_are_enough_boxes():
    panel = boxes_accuracy.by_touched({"a": ANSWERS})
    assert panel.data["series"] == {"a": {"x": [0, 1], "y": [1.0, 0.08]}}


def test_layers_needed_stand_beside_the_exact_match():
    other = AnswerScores(Score(8, 8), Score(64, 64), {}, {1: Score(2, 2), 3: Score(6, 6)})
    lines = boxes_accuracy.by_layers({"a": ANSWERS, "b": other}).text.splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "layers needed depth of stories a b",
        "1 1 25.0% 50.0 (1 / 2) 100.0 (2 / 2)",
        "2 2–3 75.0% 33.3 (2 / 6) 100.0 (6 / 6)",
    ]


def test_one_length_has_no_curve_over_lengths():
    assert len(boxes_accuracy.answer_panels({"a": {32: ANSWERS}})) == 2
    assert len(boxes_accuracy.answer_panels({"a": {1: ANSWERS, 2: ANSWERS}})) == 4


def test_only_boxes(tmp_path):
    settings = {"training.steps": 1, "training.batch": 2, "training.validation_samples": 2, "model.width": 8}
    (run,) = lab.bench("parity", ["lstm"], test_lengths="41", settings=settings, root=tmp_path)
    with pytest.raises(Error, match="must be of Boxes, got parity"):
        boxes_accuracy.score_at_each([run], [1], 1, "cpu")
