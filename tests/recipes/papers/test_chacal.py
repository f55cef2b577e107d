"""The recipes of ChaCAL at the scale of seconds: that they run, and that their panels say what the runs measured."""

import statistics

import chacal_slow_start
import pytest

from lengthwise import lab, recipes
from lengthwise.recipes.common.curves import curve, ended, first_at
from lengthwise.recipes.papers.chacal import AttentionColumn
from lengthwise.recipes.papers.chacal.chains import TOY, plan_chains


@pytest.mark.parametrize(
    ("paper", "table"),
    [("chacal", "table-1"), ("chacal", "table-2"), ("chacal", "figure-5"), (chacal_slow_start.__file__, "")],
)
def test_smoke(paper, table, tmp_path):
    recipe = recipes.get(paper, table, "smoke")
    runs = [outcome.run for outcome in lab.run(recipe.experiments, tmp_path, workers=1) if outcome.run]
    assert len(runs) == len(recipe.experiments)
    panels = recipe.panels(runs)
    assert all(panel.title and panel.text and panel.data for panel in panels)
    found = panels[0] if table.startswith("table") else panels[1]
    assert len(found.data) == len(runs)
    ends = {round(100 * ended([run])["mean"], 1) for run in runs}
    assert {round(100 * row["mean"], 1) for row in found.data} == ends
    if (paper, table) == ("chacal", "table-2"):
        for row in found.data:
            assert statistics.fmean(row["by_operations"].values()) == row["mean"]
        assert "each as heavy as the others (advanced: 1, 2, 3 operations; default: 3 operations)" in found.caption
    assert recipe.panels(runs[:1]), "what is finished is shown"
    assert recipe.panels([]) == []


def test_models_of_a_table_differ_in_their_attention_alone():
    (standard,), (chain,) = (plan_chains("smoke", AttentionColumn(kind, 1), 3) for kind in ("standard", "chain"))
    assert (standard.task, standard.training, standard.tests) == (chain.task, chain.training, chain.tests)
    assert (standard.model.name, chain.model.name) == ("transformer", "chacal")
    differ = standard.model.options.keys() ^ chain.model.options.keys()
    assert differ == {"position", "initializer_range", "chain_layers"}


def test_overnight_all_rows_are_trained_alike_on_the_published_length():
    cells = recipes.get("chacal", "table-1", "overnight").grid.cells
    assert [cell.label for cell in cells] == [*(c.label for c in TOY), "ChaCAL 1, sum of paths"]
    published = recipes.get("chacal", "table-1", "paper").grid.cells
    alike = [(e.training, e.tests, e.seed) for e in cells[0].experiments]
    for cell, of_paper in zip(cells, published, strict=True):
        assert [(e.training, e.tests, e.seed) for e in cell.experiments] == alike
        assert [e.task for e in cell.experiments] == [e.task for e in of_paper.experiments[:3]]


def test_curves_are_means_over_seeds(tmp_path):
    experiments = plan_chains("smoke", AttentionColumn("chain", 1), 3, {"seeds": 2})
    runs = [outcome.run for outcome in lab.run(experiments, tmp_path, workers=1) if outcome.run]
    steps, values = curve(runs)
    alone = [[row["accuracy"] for row in run.metrics if row["kind"] == "validation"] for run in runs]
    assert steps == [2, 4]
    assert values == pytest.approx([sum(pair) / 2 for pair in zip(*alone, strict=True)])
    assert first_at(runs, max(values)) == steps[values.index(max(values))]
    assert first_at(runs, 1.1) is None


def test_a_form_of_boxes_is_a_row_of_table_2():
    recipe = recipes.get("chacal", "table-2", "smoke").only(["advanced"])
    assert {e.task.params["form"] for e in recipe.experiments} == {"advanced"}
