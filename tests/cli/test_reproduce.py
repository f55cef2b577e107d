"""`lengthwise reproduce`: the panels of a recipe, beside its runs or alone."""

from __future__ import annotations

import json

from lengthwise import Error, lab, recipes, report
from lengthwise.cli import main
from lengthwise.recipes.common.grid import Cell, Grid

from .tiny import bench


def panel(title="What <was> [found]"):
    return report.Panel(title, "a caption [dim]", lead="the [bold]text  42", data={"x": 42})


def recipe(monkeypatch, experiments, report):
    grid = Grid([Cell("all", lambda: experiments)] if experiments else [])
    monkeypatch.setitem(recipes.TABLES, ("demo", "mine"), lambda scale: recipes.Recipe("Mine", "Why", grid, report))


def test_a_recipe_may_be_a_measurement_alone(tmp_path, capsys, monkeypatch, told, refused):
    recipe(monkeypatch, [], lambda finished, device: [panel(f"{len(finished)} runs [found]")])
    call = ["reproduce", "demo", "mine", "--out", str(tmp_path / "new")]
    assert main(call) == 0
    out, err = capsys.readouterr()
    assert out == f"\n0 runs [found]\nthe [bold]text  42\na caption [dim]\nPage:    {tmp_path / 'new' / 'index.html'}\n"
    assert err == ""
    assert "the [bold]text  42</p>" in (tmp_path / "new" / "index.html").read_text()
    data = told(*call)
    assert data["tasks"] == []
    assert data["panels"] == [{"title": "0 runs [found]", "caption": "a caption [dim]", "data": {"x": 42}}]
    refused([*call, "--only", "parity"], "Leave --only out")


def test_panels_hear_of_the_finished_runs_and_hold_no_result_back(root, tmp_path, capsys, monkeypatch):
    bench(root)
    capsys.readouterr()
    runs = lab.load(root)[:2]
    heard = []

    def report(finished, device):
        print("from a model's code")
        heard.append([run.experiment.hash for run in finished["all"]])
        if len(heard) == 2:
            raise Error("this panel fails")
        return [panel()]

    recipe(monkeypatch, [run.experiment for run in runs], report)
    call = ["reproduce", "demo", "mine", "--out", str(root), "--workers", "1", "--html", str(tmp_path), "--json"]
    assert main(call) == 0
    out, _ = capsys.readouterr()
    assert json.loads(out)["panels"][0]["title"] == "What <was> [found]"
    assert "What &lt;was&gt; [found]" in (tmp_path / "index.html").read_text()
    assert main(call) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["tasks"], "what was computed is told all the same"
    assert json.loads(out)["page"] is None
    assert "error: this panel fails" in err
    assert heard == [[run.experiment.hash for run in runs]] * 2

    failed = [lab.Outcome(run.experiment, error="it broke", exit_code=1) for run in runs]
    monkeypatch.setattr(lab, "run", lambda *_, **__: failed)
    assert main(call) == 1
    assert json.loads(capsys.readouterr().out)["panels"] == []
    assert len(heard) == 2, "without a single run there is nothing to draw"


def test_a_night_writes_the_page_after_every_row(root, tmp_path, capsys, monkeypatch):
    bench(root, "--seeds", "3")
    capsys.readouterr()
    first, second, third = sorted(lab.load(root), key=lambda run: run.experiment.seed)[:3]
    rows, calls, run = [], [], lab.run
    grid = Grid(
        [Cell(n, lambda r=r: [r.experiment], label=n) for n, r in zip("abc", (first, second, third), strict=True)]
    )
    made = recipes.Recipe("Mine", "Why", grid, lambda finished, device: rows.append(list(finished)) or [panel()])

    def second_breaks(experiments, *args, **how):
        calls.append([e.hash for e in experiments])
        page = tmp_path / "index.html"
        assert page.exists() == (len(calls) > 1)
        found = run(experiments, *args, **how)
        return [lab.Outcome(o.experiment, error="it broke", exit_code=1) if o.run == second else o for o in found]

    monkeypatch.setitem(recipes.TABLES, ("demo", "mine"), lambda scale: made)
    monkeypatch.setattr(recipes, "OVERNIGHT", (("demo", "mine"),))
    monkeypatch.setattr(lab, "run", second_breaks)
    call = ["reproduce", "demo", "mine", "--scale", "overnight", "--out", str(root), "--html", str(tmp_path)]
    assert main([*call, "--workers", "1"]) == 1
    hashes = [r.experiment.hash for r in (first, second, third)]
    assert calls == [hashes[:1], hashes[:2], hashes]
    assert rows == [["a"], ["a"], ["a", "c"]], "a row that broke keeps none back"
    capsys.readouterr()
    calls.append([])
    assert main([*call, "--workers", "1", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failures"][0]["error"] == "it broke"
    assert calls[4:] == [hashes], "one JSON, of all rows"


def test_other_recipes_say_that_they_have_no_night(refused):
    call = ["reproduce", "demo", "parity", "--scale", "overnight"]
    there = "lrnn table-2, regulargpt table-1, chacal table-1, chacal table-2, bipe figure-3"
    refused(call, f"demo parity has no scale overnight, as {there} have")


MINE = """
from lengthwise import lab
from lengthwise.recipes import Cell, Grid, Recipe

def recipe(scale, *, width: int = 8):
    settings = {"model.width": width, "training.steps": 2, "training.batch": 4, "tests.samples": 4}
    settings |= {"training.validation_samples": 4}
    def planned():
        return lab.plan("parity", ["lstm"], train_length=4, test_lengths=[4], settings=settings)
    return Recipe(f"{scale} at {width}", "Why", Grid([Cell("all", planned)]))
"""


def test_a_recipe_of_one_s_own_is_a_file(tmp_path, told):
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    data = told("reproduce", file, "--scale", "smoke", "--set", "width=6", "--out", tmp_path / "runs")
    assert data["tasks"][0]["models"][0]["options"] == {"width": 6}
    assert recipes.get(str(file), scale="paper").title == "paper at 8"


def test_a_file_that_is_no_recipe_is_one_line(tmp_path, refused):
    file = tmp_path / "mine.py"
    wrong = {
        "x = 1": "defines recipe(scale)",
        "def recipe(scale): return 3": "must return a lengthwise.recipes.Recipe, got int",
        "def recipe(scale): return {}[scale]": "recipe() failed: KeyError",
        "import nothing_of_this_name": "could not be imported",
    }
    for text, words in wrong.items():
        file.write_text(text)
        refused(["reproduce", file, "--scale", "smoke"], words)
    for call in (["nowhere.py"], [file, "table-1"], ["study", "tree-and-scan"]):
        refused(["reproduce", *call], "")
