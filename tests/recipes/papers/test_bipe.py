"""The recipes of BiPE at the scale of seconds: that they run, and that their panels say what the runs measured."""

import pytest

from lengthwise import insight, lab, recipes, tasks
from lengthwise.insight import ChainScores, add_chains, count_chains, score_chains
from lengthwise.lab.statistics import summary
from lengthwise.recipes.papers.bipe import figure_3
from lengthwise.tasks.arithmetic_steps import Judgement


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    recipe = recipes.get("bipe", "figure-3", "smoke")
    outcomes = lab.run(recipe.experiments, tmp_path_factory.mktemp("figure-3"), workers=1)
    return [outcome.run for outcome in outcomes if outcome.run]


def test_figure_3_counts_modulo_what_it_is_told():
    tasks_of = [
        recipes.get("bipe", "figure-3", *of).experiments[0].task for of in (("paper",), ("laptop", ["modulus=11"]))
    ]
    assert tasks_of[0] == tasks_of[1] != recipes.get("bipe", "figure-3", "laptop").experiments[0].task


def test_the_published_scale_says_what_a_call_changes(runs):
    finished = recipes.get("bipe", "figure-3", "smoke").grid.finished(runs)
    last = recipes.get("bipe", "figure-3", "paper", ["modulus=3"]).report(finished, "cpu")[-1]
    assert last.data == [{"for": "all", "setting": "task.modulus", "published": 11, "here": 3}]


def test_figure_3(runs):
    recipe = recipes.get("bipe", "figure-3", "smoke")
    assert len(runs) == len(recipe.experiments) == 6
    panels = recipe.panels(runs)
    assert all(panel.title and panel.text and panel.data for panel in panels)
    table = panels[0]
    assert {row["encoding"]: row["mean"] for row in table.data} == {
        key.encoding: summary(mine, [2]).mean for key, mine in recipe.grid.finished(runs).items()
    }
    for row in table.data:
        assert row["chains"] == 4
        assert row["valid"] + sum(row["first_wrong"].values()) == 4
        assert row["right"] / 4 == row["mean"], "the same strings, counted by the lab and by the checker"
    assert "At width 8" in table.finding
    longer = next(panel for panel in panels if panel.title == "Shorter and longer problems")
    assert [line.split()[0] for line in longer.text.splitlines()[1:5]] == ["1", "2", "3", "4"]
    assert "1 of 6 encodings are finished" in recipe.panels(runs[:1])[0].finding
    assert recipe.panels([]) == []
    assert [key.encoding for key in recipe.only(["rope"]).grid.finished(runs)] == ["rope"]


def test_what_chains_are_worth_is_what_the_models_write(runs):
    run = next(run for run in runs if run.experiment.model.name == "bipe")
    found = score_chains(lab.load_model(run), lab.load_task(run), 2, 4)
    assert found.right == run.result["checkpoints"]["last"]["correct"]["2"]
    assert insight.ChainScores is ChainScores


def test_chains_are_counted():
    each = [(True, True, 3), (True, False, 1), (False, False, 0), (False, False, 1)]
    judged = [Judgement(*one) for one in each]
    found = count_chains(judged)
    assert found == ChainScores(4, 2, 1, {1: 1, 2: 2})
    assert [found.holding(step) for step in range(4)] == [1.0, 0.75, 0.25, 0.25]
    assert add_chains([found, found]) == ChainScores(8, 4, 2, {1: 2, 2: 4})


def test_two_levels_have_a_place_for_every_symbol_of_a_problem():
    recipe = recipes.get("bipe", "figure-3", "paper")
    two_levels = next(cell for cell in recipe.grid.cells if cell.key.encoding == "bipe-rope").experiments[0]
    task = tasks.get("arithmetic-steps")
    assert two_levels.model.options["ends"] == [task.vocabulary.index("=")]
    longest = max(task.prompts(task.test_set(6, 2000).tokens).tolist())
    assert longest <= two_levels.model.options["max_length"]


def test_models_differ_in_their_positions_alone():
    recipe = recipes.get("bipe", "figure-3", "laptop")
    first, *others = (cell.experiments[0] for cell in recipe.grid.cells)
    for other in others:
        assert (other.task, other.training, other.tests) == (first.task, first.training, first.tests)
        differing = {k for k in first.model.options.keys() | other.model.options.keys()
                     if first.model.options.get(k) != other.model.options.get(k)}  # fmt: skip
        assert differing <= {"position", "ends", "max_length"}


@pytest.mark.parametrize(("rope", "said"), [(0.4, "At width 8 both kinds"), (0.9, "At width 8 not both kinds")])
def test_the_order_is_said(runs, rope, said, monkeypatch):
    recipe = recipes.get("bipe", "figure-3", "smoke")
    finished = recipe.grid.finished(runs)
    means = {"bipe-alibi": 0.97, "bipe-rope": 0.8, "rope": rope}

    class Mean:
        def __init__(self, mine, lengths):
            (self.mean,) = (means.get(key.encoding, 0.2) for key, each in finished.items() if each == mine)

    monkeypatch.setattr(figure_3, "summary", Mean)
    sentence = figure_3.order(finished, {"widths": [8], "operators": 2})
    assert said in sentence
    assert sentence.endswith("; one seed settles no order.")
