"""Recipes of language models at the scale of seconds: that they run, and that their panels say what was measured."""

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import bipe_with_other_mixers
import chacal_from_scratch
import pytest

from lengthwise import lab, recipes
from lengthwise.evaluate import Loss
from lengthwise.lab import Experiment, LengthTests, ModelSpec, Training
from lengthwise.lab.experiment import TextSpec
from lengthwise.lab.statistics import perplexities
from lengthwise.recipes.common import text_grid
from lengthwise.recipes.common.rules import settings_of
from lengthwise.recipes.papers.bipe import figure_4

ALL = (
    ("bipe", "figure-4"),
    ("bipe", "figure-5"),
    ("bipe", "figure-6"),
    ("bipe", "figure-9"),
    ("regulargpt", "table-3"),
    ("regulargpt", "figure-4b"),
    (chacal_from_scratch.__file__, ""),
    (bipe_with_other_mixers.__file__, ""),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("text")


def made(paper: str, table: str, store, *more: str) -> recipes.Recipe:
    return recipes.get(paper, table, "smoke", [f"store={store}", *more])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paper", "table", "only"),
    [
        ("bipe", "figure-4", ["randomized", "rope", "bipe-alibi", "bipe-fox"]),
        ("bipe", "figure-6", ["bipe-rope", "no places inside", "segments of 8"]),
        ("regulargpt", "table-3", ["alibi", "2/1", "4/1"]),
        (bipe_with_other_mixers.__file__, "", ["softmax", "sliding-dilated", "all four"]),
    ],
)
def test_a_recipe_runs_and_says_what_it_measured(paper, table, only, store, tmp_path):
    recipe = made(paper, table, store).only(only)
    outcomes = lab.run(recipe.experiments, tmp_path, workers=1)
    assert [outcome.error for outcome in outcomes if outcome.run is None] == []
    runs = [outcome.run for outcome in outcomes if outcome.run]
    panels = recipe.panels(runs)
    assert all(panel.title and panel.html and panel.text and panel.data for panel in panels)
    json.dumps([panel.to_json() for panel in panels], allow_nan=False)
    by_column = {column: mine[0] for column, mine in recipe.grid.finished(runs).items()}
    assert list(by_column) == only
    for row in panels[0].data:
        measured = perplexities(by_column[row["model"]])
        assert row["perplexity"] == measured[8]
        assert row["times"]["16"] == pytest.approx(measured[16] / measured[8])
    assert recipe.panels(runs[:1])
    assert recipe.panels([]) == []


@pytest.mark.slow
def test_figure_5_shows_yarn_before_its_training_and_after(store, tmp_path):
    recipe = made("bipe", "figure-5", store).only(["bipe-rope", "bipe-rope-yarn"])
    runs = [outcome.run for outcome in lab.run(recipe.experiments, tmp_path, workers=1) if outcome.run]
    first, tuned = runs
    panels = recipe.panels(runs)
    json.dumps([panel.to_json() for panel in panels], allow_nan=False)
    shown = panels[0].data
    assert shown == {
        name: {str(n): perplexity for n, perplexity in found.items()}
        for name, found in {
            "bipe-rope": perplexities(first),
            "bipe-rope, YaRN alone": perplexities(tuned, "before"),
            "bipe-rope, YaRN and trained": perplexities(tuned),
        }.items()
    }
    assert (first.experiment.data.block, tuned.experiment.data.block) == (8, 32)
    assert set(tuned.experiment.tests.lengths) >= {8 * times for times in (1, 4, 20)}
    (yarn,) = tuned.experiment.model.options["conversions"]
    assert (yarn["factor"], yarn["trained"]) == (16, lab.trained_places(first.experiment))
    assert (
        f"At 160 tokens, with YaRN and trained further: bipe-rope has {shown['bipe-rope, YaRN and trained']['160']:.4g}"
        in (panels[0].finding)
    )
    (alone,) = made("bipe", "figure-5", store).only(["bipe-rope-yarn"]).experiments
    assert alone.hash == tuned.experiment.hash


@pytest.mark.slow
def test_figure_4b_measures_the_runs_of_table_3(store, tmp_path):
    table, figure = made("regulargpt", "table-3", store), made("regulargpt", "figure-4b", store)
    (outcome,) = lab.run(table.only(["2/1"]).experiments, tmp_path, workers=1)
    drawn, counted = figure.panels([outcome.run])
    assert list(drawn.data) == ["2/1"]
    assert 1 <= counted.data["2/1"]["newest_90"] <= counted.data["2/1"]["newest_99"] <= 16


@pytest.mark.slow
def test_chacal_from_scratch(store, tmp_path):
    recipe = made(chacal_from_scratch.__file__, "", store).only(["standard", "ChaCAL all"])
    runs = [outcome.run for outcome in lab.run(recipe.experiments, tmp_path, workers=1) if outcome.run]
    learning, ended = recipe.panels(runs)
    assert learning.data
    assert [row["model"] for row in ended.data] == ["standard", "ChaCAL all"]
    assert len({row["parameters"] for row in ended.data}) == 1
    assert ended.data[0]["perplexities"]["16"] == perplexities(runs[0])[16]


@pytest.mark.slow
def test_a_further_text_is_tested_on(store, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("def one(x):\n    return x\n" * 40)
    recipe = made("bipe", "figure-4", store, f"test={other}").only(["alibi"])
    (outcome,) = lab.run(recipe.experiments, tmp_path / "runs", workers=1)
    assert outcome.run
    (panel,) = [panel for panel in recipe.panels([outcome.run]) if "other.txt" in panel.title]
    assert set(panel.data["alibi"]) == {"8", "16", "192"}
    assert all(math.isfinite(perplexity) for perplexity in panel.data["alibi"].values())


def test_all_models_of_a_recipe_can_be_built(store):
    for name in ALL:
        recipe = made(*name, store)
        experiments = [recipe.grid.only([cell.label]).experiments for cell in recipe.grid.cells]
        assert all(len(each) == 1 for each in experiments)
        assert len({each[0].data.digests["train"] for each in experiments}) == 1, "all are trained on one text"
        assert len({each[0].hash for each in experiments}) == len(experiments)


def test_figures_share_runs(store):
    first = {e.hash for e in made("bipe", "figure-4", store).experiments}
    for figure, shared in (("figure-5", "bipe-rope"), ("figure-6", "bipe-rope"), ("figure-9", "randomized")):
        (e,) = made("bipe", figure, store).only([shared]).experiments
        assert e.hash in first


def test_stacks_share_figure_4_s_runs_where_they_are_as_deep(store):
    """With four layers, as at laptop scale: a smoke test of Figure 4 has one."""
    study, figure = (columns("line", 128) for columns in (bipe_with_other_mixers.columns, figure_4.columns))
    assert study["softmax"] == figure["bipe-rope"]
    assert bipe_with_other_mixers.DEEPER["laptop"] == bipe_with_other_mixers.DEEPER["paper"] == []
    assert settings_of(figure_4.RULES["laptop"], "*", "*")["model.layers"] % 4 == 0


def test_what_is_said_of_longer_texts():
    times = {"a": {16: 1.05}, "b": {16: 1.3}, "c": {16: 40.0}, "d": {16: math.nan}}
    assert text_grid._verdict(times, 16) == "At 16 tokens a hold; c, d are broken; b are between."


def a_run(losses):
    """A run of windows of 8 tokens with these losses by length, as much of it as panels read."""
    spec = TextSpec("text", {}, 8, 3, tokenizer="digest")
    tests = LengthTests(tuple(losses), way="windows", seed=5)
    experiment = Experiment(spec, ModelSpec("lstm"), Training.of(precision="bf16"), tests)
    said = {"losses": {str(n): loss for n, loss in losses.items()}}
    result = {"checkpoints": {"last": said}, "parameters": 1, "seconds": {"train": 1.0}}
    return lab.Run(Path("run"), experiment, result, [])


def test_what_is_not_finite_is_none_in_every_panel():
    finished = {"standard": [a_run({8: 1.0, 16: None})], "2/1": [a_run({8: 1.0, 16: 1e4})]}
    ended = {row["model"]: row["perplexities"] for row in chacal_from_scratch.ended(finished).data}
    assert ended == {key: {"8": math.e, "16": None} for key in ("standard", "2/1")}
    assert [row["times"] for row in text_grid.growth(finished).data] == [{"16": None}, {"16": None}]


def test_what_was_learned_is_drawn_against_tokens():
    """Two seeds of windows of 8 tokens: steps that both were validated at, and the mean of their losses."""
    runs = [a_run({8: 1.0}) for _ in range(2)]
    for run, losses in zip(runs, ({2: 3.0, 4: 1.0}, {2: 1.0, 3: 9.0, 4: 0.0}), strict=True):
        run.metrics.extend({"kind": "validation", "step": step, "loss": loss} for step, loss in losses.items())
        run.metrics.append({"kind": "train", "step": 2, "loss": 7.0})
    batch = runs[0].experiment.training.batch
    drawn = text_grid.learning({"rope": runs}).data["series"]["rope"]
    assert drawn == {"x": [2 * batch * 8, 4 * batch * 8], "y": [math.exp(2), math.exp(0.5)]}
    lost = a_run({8: 1.0})
    lost.metrics.extend({"kind": "validation", "step": step, "loss": loss} for step, loss in ((1, None), (2, 1e4)))
    assert text_grid.learning({"rope": [lost]}).to_json()["data"]["series"]["rope"]["y"] == [None, None]


def test_other_texts_are_measured_as_the_run_was_tested(monkeypatch):
    asked = {}

    def measure(*_, **given):
        asked.update(given)
        return SimpleNamespace(losses={8: Loss(0.0, 7)})

    monkeypatch.setattr(text_grid, "measure_perplexity", measure)
    run = a_run({8: 1.0})
    assert text_grid._on_text(run, "other.txt", "store", "cpu") == {8: 1.0}
    assert (asked["tokens"], asked["precision"], asked["seed"]) == (24, "bf16", 5)
    whole = run._replace(experiment=replace(run.experiment, data=replace(run.experiment.data, test_blocks=None)))
    text_grid._on_text(whole, "other.txt", "store", "cpu")
    assert asked["tokens"] is None


def test_which_text_stands_for_which():
    assert text_grid.TextSource(["stdlib"]).at("laptop") == ["stdlib"]
    assert text_grid.TextSource(["stdlib"]).at("smoke") != ["stdlib"]
    assert text_grid.TextSource(["a.txt"]).at("smoke") == ["a.txt"]
    assert (text_grid.TextSource(["stdlib"]).rule, text_grid.TextSource(["a.txt"]).rule) == ("line", "sentence")
