"""The recipes of ChaCAL at the scale of seconds: that they run, and that their panels say what the runs measured."""

import statistics
from types import SimpleNamespace

import chacal_slow_start
import pytest
import torch

from lengthwise import lab, recipes
from lengthwise.recipes.common.curves import curve, ended, first_at
from lengthwise.recipes.papers.chacal import AttentionColumn, table_2
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


def test_a_form_and_a_model_are_a_row_of_table_2():
    recipe = recipes.get("chacal", "table-2", "smoke").only(["advanced, ChaCAL 2"])
    assert [(e.task.params["form"], e.model.name) for e in recipe.experiments] == [("advanced", "chacal")]


def test_overnight_boxes_have_all_published_models_and_both_ways_to_join_paths():
    recipe = recipes.get("chacal", "table-2", "overnight")
    advanced = [cell for cell in recipe.grid.cells if cell.key[0] == "advanced"]
    labels = ["Standard 2", "Standard 3", "Standard 4", "Standard 5", "ChaCAL 2", "ChaCAL 2, sum of paths"]
    assert [cell.label for cell in advanced] == [f"advanced, {label}" for label in labels]
    assert [len(cell.experiments) for cell in advanced] == [3] * 6
    assert [e.model.options["paths"] for cell in advanced[4:] for e in cell.experiments[:1]] == ["mean", "sum"]
    alike = {(e.task.params["boxes"], e.training.steps) for cell in advanced for e in cell.experiments}
    assert alike == {(4, 6000)}
    default = [e for cell in recipe.grid.cells if cell.key[0] == "default" for e in cell.experiments]
    assert [(e.seed, e.training.steps) for e in default] == [(0, 3000)] * 6


class AllButOneBox(torch.nn.Module):
    """Knows a task's answers, but no token about one box and none of a prompt."""

    def __init__(self, task, box):
        super().__init__()
        self.task, self.box, self.none = task, task.known[box], torch.nn.Parameter(torch.zeros(()))

    def forward(self, tokens):
        targets = self.task.label(tokens).targets.clone()
        for row, start in zip(targets, self.task.answer_starts(tokens).tolist(), strict=True):
            row[: start - 1] = 0
            (at,) = torch.where(row[start:] == self.box)
            if len(at):  # the clause begins at the word "Box" before it, and ends behind the next mark
                begin = start + int(at[0]) - 1
                length = int(torch.isin(row[begin:], torch.tensor([1, 2])).int().argmax()) + 1
                row[begin : begin + length] = 0
        return torch.nn.functional.one_hot(targets, self.task.outputs)


@pytest.mark.parametrize("form", ["advanced", "default"])
def test_boxes_are_scored_one_by_one(form, monkeypatch):
    monkeypatch.setattr(table_2, "STORIES", 16)
    (experiment,) = table_2.plan_boxes("smoke", form, table_2.CHAIN)
    run = SimpleNamespace(experiment=experiment)
    task = lab.load_task(run)
    lengths = experiment.training.curriculum.lengths
    assert f"{form}: chains of" in table_2._caption({(form, table_2.CHAIN): [run]}), "with no standard layers beside it"
    whole, boxes, touched = [], [], []
    for n in range(lengths[0], lengths[1] + 1):
        for row in task.test_set(n, 16).tokens:
            prompt, answer = task.parts(row)
            operations = prompt.split(". ", 1)[1]
            letters = [clause.split("Box ")[1][0] for clause in answer.split(", ")]
            whole.append((1 / n, "A" not in letters))
            boxes += [(1 / n, letter != "A") for letter in letters]
            touched += [(1 / n, letter != "A") for letter in letters if f"Box {letter}" in operations]
    shares = table_2.drawn_as_trained(run, AllButOneBox(task, "A"))
    for share, of in zip(shares, (whole, boxes, touched), strict=True):
        weights, right = zip(*of, strict=True)
        assert share == pytest.approx(sum(w for w, r in of if r) / sum(weights))
        assert form == "default" or any(right)
