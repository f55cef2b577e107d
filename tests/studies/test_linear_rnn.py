"""The ablation and the study of stability: what is shared, and that their panels say what was measured."""

import json
from dataclasses import replace

import automaton_seeds
import linear_rnn_ablation
import linear_rnn_stability
import pytest
import torch
from linear_rnn_ablation import parts, plan_changed, scores_by_length
from linear_rnn_stability import DRIFT, NORMALISATIONS, growth

from lengthwise import lab, recipes, tasks
from lengthwise.evaluate import score_strings
from lengthwise.lab import new_model as untrained
from lengthwise.recipes.common import grid
from lengthwise.recipes.papers.lrnn import table_2

CPU = torch.device("cpu")
TASK = tasks.get("modular-sum", modulus=5, supervision="prefix")


def hashes(scale, change):
    return {e.hash for e in plan_changed(scale, change)}


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_a_run_is_found_by_what_it_is(scale):
    every = {e.hash for e in recipes.get(linear_rnn_ablation.__file__, scale=scale).experiments}
    assert hashes(scale, {}) == hashes(scale, {"model.normalisation": "paper"})
    stable = {e.hash for e in recipes.get(linear_rnn_stability.__file__, scale=scale).experiments}
    for name in NORMALISATIONS:
        assert hashes(scale, {"model.normalisation": name}) <= every & stable
    assert hashes(scale, {"model.p": 1.0}) <= every
    for change in DRIFT.values():
        assert hashes(scale, change) <= stable


def done(recipe, root):
    outcomes = lab.run(recipe.experiments, root, workers=1, device="cpu")
    assert all(outcome.run for outcome in outcomes)
    return [outcome.run for outcome in outcomes if outcome.run]


def test_the_ablation_at_the_scale_of_seconds(root):
    recipe = recipes.get(linear_rnn_ablation.__file__, scale="smoke")
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
    recipe = recipes.get(linear_rnn_stability.__file__, scale="smoke")
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
    after = growth(lab.load_model(own), TASK, 60)
    before = growth(untrained(own.experiment), TASK, 60)
    for i, expected in enumerate(
        (after.states, before.states, after.by_state, before.by_state, after.by_input, before.by_input)
    ):
        assert growths[i].data["series"]["official"]["y"] == pytest.approx(list(expected)), titles[i]
    assert growths[2].data["series"]["orthogonal"]["y"] == pytest.approx([1.0] * len(after.lengths))
    assert recipe.panels([]) == []


def test_a_model_that_overflows_is_said_to(root, monkeypatch):
    (outcome,) = lab.run(plan_changed("smoke", {"model.normalisation": "none"}), root, workers=1, device="cpu")
    run = outcome.run
    assert run

    def wild(run):
        classifier = lab.load_model(run)
        last = [m for name, m in classifier.named_modules() if name.endswith("transition.2")][-1]
        torch.nn.init.constant_(last.get_parameter("bias"), 1e4)
        return classifier

    monkeypatch.setattr(grid, "load_model", wild)
    found = scores_by_length([run], [60], 4, "cpu")
    assert (found[60].right, found[60].overflowed) == ((0,), 4)
    assert found[40].overflowed == 0
    assert found[40].mean == run.result["checkpoints"]["last"]["correct"]["40"] / 8
    recipe = recipes.get(linear_rnn_ablation.__file__, scale="smoke")
    table = recipe.panels([run])[0]
    assert "overflows" in table.text
    assert table.data[0]["accuracy"]["60"]["overflowed"] == 4


@pytest.mark.parametrize(("row", "kept"), [("modular-sum", {}), ("modular-arithmetic", automaton_seeds.KEPT)])
def test_the_automaton_is_that_of_table_2_with_seeds_that_its_settings_were_not_found_on(row, kept):
    planned = automaton_seeds.planned("laptop", row)
    assert [e.seed for e in planned] == list(range(80, 90))
    first = table_2.planned("laptop", row, "block-lrnn automaton")[0]
    changed = replace(first, training=first.training.but(**kept))
    assert {replace(e, seed=first.seed).hash for e in planned} == {changed.hash}


def test_the_study_of_stability_has_the_runs_that_its_drift_needs():
    stable = recipes.get(linear_rnn_stability.__file__, scale="laptop").experiments
    for change in DRIFT.values():
        drift = plan_changed("laptop", {**change, "seeds": 5})
        assert {e.hash for e in drift} <= {e.hash for e in stable}, "five seeds of every variant"


def test_the_automaton_s_seeds_at_the_scale_of_seconds(tmp_path):
    recipe = recipes.get(automaton_seeds.__file__, scale="smoke").only(["modular-sum"])
    runs = done(recipe, tmp_path)
    table, learning = recipe.panels(runs)
    (row,) = table.data
    assert (row["task"], row["seeds"], row["learned"], row["hold"], row["exact"]) == ("Sum(5)", 2, 0, 0, 0)
    assert list(learning.data["series"]) == ["seed 80", "seed 81"]
    runs[0].result["checkpoints"]["last"]["correct"] = {"40": 8, "500": 8}
    runs[1].result["checkpoints"]["last"]["correct"] = {"40": 8, "500": 6}
    table, _ = recipe.panels(runs)
    (row,) = table.data
    assert (row["learned"], row["hold"], row["exact"]) == (2, 1, 1)
    assert row["accuracy"] == [{"seed": 80, "40": 1.0, "500": 1.0}, {"seed": 81, "40": 1.0, "500": 0.75}]
    assert "2 of 2 1 of 2 1 of 2 100 100 100 75" in " ".join(table.text.split())
