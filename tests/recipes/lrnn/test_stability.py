"""The ablation and the study of stability: what is shared, and that their panels say what was measured."""

from __future__ import annotations

import json

import pytest
import torch

from lengthwise import lab, recipes, tasks
from lengthwise.evaluate import score_strings
from lengthwise.recipes.lrnn import sums
from lengthwise.recipes.lrnn.ablation import parts
from lengthwise.recipes.lrnn.growth import grown, untrained
from lengthwise.recipes.lrnn.stability import DRIFT, NORMALISATIONS
from lengthwise.recipes.lrnn.sums import asked_on, changed

CPU = torch.device("cpu")
TASK = tasks.get("modular-sum", modulus=5, supervision="prefix")


def hashes(scale, change):
    return {e.hash for e in changed(scale, change)}


def test_what_is_asked():
    found = parts("laptop")
    assert list(found["p"]) == ["1", "1.2", "2", "∞", "no bound"]
    assert list(found["block width"]) == ["1", "2", "4", "8", "16"]
    assert {c["model.block"] * c["model.blocks"] for c in found["block width"].values()} == {64}
    assert list(found["normalisation"]) == ["paper", "official", "orthogonal", "none", "one-hot, no inputs"]
    assert list(found["layers"]) == ["1", "2", "3"]


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_a_run_is_found_by_what_it_is(scale):
    every = {e.hash for e in recipes.get("lrnn", "ablation", scale).experiments}
    assert hashes(scale, {}) == hashes(scale, {"model.normalisation": "paper"})
    stable = {e.hash for e in recipes.get("lrnn", "stability", scale).experiments}
    for name in NORMALISATIONS:
        assert hashes(scale, {"model.normalisation": name}) <= every & stable
    assert hashes(scale, {"model.p": 1.0}) <= every
    for change in DRIFT.values():
        assert hashes(scale, change) <= stable


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def done(recipe, root):
    outcomes = lab.run(recipe.experiments, root, workers=1, device="cpu")
    assert all(outcome.run for outcome in outcomes)
    return [outcome.run for outcome in outcomes if outcome.run]


def test_the_ablation_at_the_scale_of_seconds(root):
    recipe = recipes.get("lrnn", "ablation", "smoke")
    assert recipe.panels
    runs = done(recipe, root)
    table, *learning = recipe.panels(runs)
    assert [panel.title for panel in learning] == [f"Learning, by {part}" for part in parts("smoke")]
    rows = {(row["part"], row["value"]): row for row in table.data}
    assert list(rows) == [(part, value) for part, values in parts("smoke").items() for value in values]
    assert rows["p", "1.2"]["accuracy"] == rows["normalisation", "paper"]["accuracy"] == rows["layers", "1"]["accuracy"]
    assert rows["p", "1.2"]["baseline"] == pytest.approx(0.2, abs=1e-9)
    for change, key in (({"model.p": 1.0}, ("p", "1")), ({"model.layers": 2}, ("layers", "2"))):
        run = next(run for run in runs if run.experiment.hash in hashes("smoke", change))
        found = rows[key]["accuracy"]
        assert found["40"]["mean"] == run.result["checkpoints"]["last"]["correct"]["40"] / 8
        assert found["60"]["right"] == [score_strings(lab.load_model(run), TASK, (60,), 4, 0, device=CPU).correct["60"]]
        assert found["60"]["overflowed"] == 0
        assert rows[key]["parameters"] == run.result["parameters"]
    json.dumps(table.data, allow_nan=False)
    assert len(recipe.panels(runs[:1])[0].data) == 1, "what is finished is shown"
    assert recipe.panels([]) == []


def test_stability_at_the_scale_of_seconds(root):
    recipe = recipes.get("lrnn", "stability", "smoke")
    assert recipe.panels
    runs = done(recipe, root)
    drawn, table, *growths = recipe.panels(runs)
    assert [row["variant"] for row in table.data] == list(drawn.data["series"]) == list(DRIFT)
    for row in table.data:
        assert row["settings"] == DRIFT[row["variant"]]
        ys = [row["accuracy"][n]["mean"] for n in ("40", "50", "60")]
        assert drawn.data["series"][row["variant"]] == {"x": [40, 50, 60], "y": ys}
    titles = [f"{what}, {when}" for what in ("State norm", "Gradient by the state", "Gradient by the input")
              for when in ("trained", "untrained")]  # fmt: skip
    assert [panel.title for panel in growths] == titles
    (own,) = (run for run in runs if run.experiment.hash in hashes("smoke", {"model.normalisation": "official"}))
    trained = grown(lab.load_model(own), TASK, 60)
    before = grown(untrained(own.experiment), TASK, 60)
    for i, expected in enumerate(
        (trained.states, before.states, trained.by_state, before.by_state, trained.by_input, before.by_input)
    ):
        assert growths[i].data["series"]["official"]["y"] == pytest.approx(list(expected)), titles[i]
    assert growths[2].data["series"]["orthogonal"]["y"] == pytest.approx([1.0] * len(trained.lengths))
    assert recipe.panels([]) == []


def test_a_model_that_overflows_is_said_to(root, monkeypatch):
    (outcome,) = lab.run(changed("smoke", {"model.normalisation": "none"}), root, workers=1, device="cpu")
    run = outcome.run
    assert run

    def wild(run):
        classifier = lab.load_model(run)
        last = [m for name, m in classifier.named_modules() if name.endswith("transition.2")][-1]
        torch.nn.init.constant_(last.get_parameter("bias"), 1e4)
        return classifier

    monkeypatch.setattr(sums, "load_model", wild)
    found = asked_on([run], [60], 4)
    assert (found[60].right, found[60].overflowed) == ((0,), 4)
    assert found[40].overflowed == 0
    assert found[40].mean == run.result["checkpoints"]["last"]["correct"]["40"] / 8
    recipe = recipes.get("lrnn", "ablation", "smoke")
    assert recipe.panels
    table = recipe.panels([run])[0]
    assert "overflows" in table.text
    assert table.data[0]["accuracy"]["60"]["overflowed"] == 4
