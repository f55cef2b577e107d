"""Grids: runs are joined to cells by their experiment's hash, and a cell is planned when it is asked for."""

import sys
from typing import NamedTuple

import pytest

from lengthwise import Error, recipes
from lengthwise.lab import Experiment, LengthTests, ModelSpec, TaskSpec, Training
from lengthwise.recipes.common.grid import Cell, Grid
from lengthwise.recipes.papers.regulargpt import table_1


class FakeRun(NamedTuple):
    experiment: Experiment


def experiment(task, seed=0):
    return Experiment(TaskSpec(task), ModelSpec("lstm"), Training(), LengthTests((50,)), seed)


def grid():
    seeds = {task: [experiment(task, seed) for seed in range(2)] for task in ("parity", "d-2")}
    return Grid([Cell((task, name), lambda task=task: seeds[task], label=task) for task in seeds for name in "ab"])


def test_runs_are_joined_by_hash():
    parity = [FakeRun(experiment("parity", seed)) for seed in (1, 0)]
    finished = grid().finished([*parity, FakeRun(experiment("tomita-3"))])
    assert list(finished) == [("parity", "a"), ("parity", "b")], "in the order of the cells, the empty ones left out"
    assert finished["parity", "a"] == finished["parity", "b"] == parity[::-1], "in the order of the experiments"


def test_what_cells_share_is_run_once():
    assert [(e.task.name, e.seed) for e in grid().experiments] == [("parity", 0), ("parity", 1), ("d-2", 0), ("d-2", 1)]


def test_a_key_names_one_cell():
    with pytest.raises(Error, match="Two cells of a grid have one key"):
        Grid([Cell(1, list), Cell(1, list)])


@pytest.fixture
def planned(monkeypatch):
    """The tasks that Table 1 has planned a cell of."""
    tasks = []

    def plan(task, *args, **kwargs):
        tasks.append(task.name)
        return [experiment(task.name, seed=len(tasks))]

    monkeypatch.setattr(table_1, "plan_cell", plan)
    return tasks


def test_only_the_rows_asked_for_are_planned(planned):
    recipe = recipes.get("regulargpt", "table-1", "laptop")
    assert planned == [], "nothing before the experiments are asked for"
    part = recipe.only(["d-2", "parity"])
    assert len(part.experiments) == 8
    assert planned == ["parity"] * 4 + ["d-2"] * 4
    assert part.panels([]) == []
    with pytest.raises(Error, match="Did you mean 'parity'"):
        recipe.only(["prity"])
    with pytest.raises(Error, match="Leave --only out"):
        Grid().only(["parity"])
    assert len(part.experiments) == len(planned) == 8, "and once"


def test_a_cell_can_be_run_alone(planned):
    recipe = recipes.get("regulargpt", "table-1", "laptop")
    part = recipe.only(["d-2, rnn", "parity, regular-gpt C=2", "tomita-3"])
    assert [cell.name for cell in part.grid.cells if cell.label == "d-2"] == ["d-2, rnn"]
    assert len(part.experiments) == 6
    assert sorted(planned) == ["d-2", "parity", *["tomita-3"] * 4]
    with pytest.raises(Error, match="Did you mean 'd-2, rnn'"):
        recipe.only(["d-2, rn"])


def test_every_recipe_plans_late(monkeypatch):
    """To list the recipes, or to get one, costs no plan."""
    for name, module in sys.modules.items():
        if name.startswith("lengthwise.recipes") and hasattr(module, "plan"):
            monkeypatch.setattr(module, "plan", None)
    for name in recipes.available():
        paper, table = name.split(" ")
        if table != "table-3":
            recipes.get(paper, table, "paper")
