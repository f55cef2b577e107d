"""BiPE's tables at the scale of seconds: which runs they are, what the panels say, and what is refused."""

import json
from types import SimpleNamespace

import pytest

from lengthwise import Error, lab, recipes
from lengthwise.evaluate.benchmarks import BENCHMARKS, BenchmarkScore
from lengthwise.evaluate.written_answers import read_submission
from lengthwise.recipes.papers.bipe import table_1, table_2
from lengthwise.recipes.papers.bipe.table_1 import PUBLISHED, AnswersKey
from lengthwise.text.scrolls import TASKS

from ...lab import scrolls as made


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made.write(tmp_path_factory.mktemp("scrolls"), ("qasper", "quality", "gov_report"))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


def test_the_published_averages_are_those_of_the_published_numbers():
    for numbers in PUBLISHED.values():
        assert sum(numbers[:-1]) / 7 == pytest.approx(numbers[-1], abs=0.1), "one is 0.08 off in print"


def test_every_column_goes_on_from_a_language_model(folder, store):
    recipe = recipes.get("bipe", "table-1", "smoke", [f"data={folder}", f"store={store}"]).only(["qasper"])
    by_column = {cell.key.column: cell.experiments for cell in recipe.grid.cells}
    assert list(by_column) == list(PUBLISHED)
    for column, (e,) in by_column.items():
        assert e.data.task == "qasper"
        assert (e.continues.continues is not None) == column.endswith("-yarn")
        assert e.data.tokenizer == e.continues.data.tokenizer
    figure = recipes.get("bipe", "figure-4", "smoke", [f"store={store}"])
    (first,) = next(cell.experiments for cell in figure.grid.cells if cell.key == "bipe-rope")
    assert by_column["bipe-rope"][0].continues.hash == first.hash


def test_table_1_says_at_the_published_scale_what_a_call_changes(folder, store, monkeypatch):
    monkeypatch.setattr(table_1, "compared", lambda finished: None)
    recipe = recipes.get("bipe", "table-1", "paper", [f"data={folder}", f"store={store}", "steps=7"])
    (row,) = recipe.report({}, "cpu")[-1].data
    assert (row["setting"], row["here"]) == ("training.steps", 7)


@pytest.mark.slow
def test_table_1_runs_and_says_what_was_answered(folder, store, tmp_path):
    settings = [f"data={folder}", f"store={store}", f"submission={tmp_path / 'site'}"]
    recipe = recipes.get("bipe", "table-1", "smoke", settings).only(["qasper", "quality"])
    some = [e for e in recipe.experiments if e.model.name in ("continued-bipe", "continued-bipe-yarn")]
    outcomes = lab.run([e for e in some if "alibi" not in str(e.continues.model.options)], tmp_path / "runs", workers=1)
    runs = [outcome.run for outcome in outcomes if outcome.run]
    assert len(runs) == 4, [outcome.error for outcome in outcomes]
    panels = recipe.panels(runs)
    json.dumps([panel.to_json() for panel in panels], allow_nan=False)
    table, sent = panels[:2]
    assert [row["task"] for row in table.data] == ["qasper", "quality"]
    finished = recipe.grid.finished(runs)
    for row in table.data:
        for column, score in row["scores"].items():
            (run,) = finished[AnswersKey(row["task"], column)]
            assert score == run.result["answers"]["score"]
            assert row["published"][column] == dict(zip(TASKS, PUBLISHED[column], strict=False))[row["task"]]
    assert set(sent.data) == {"bipe-rope", "bipe-rope-yarn"}
    found = read_submission(tmp_path / "site" / "bipe-rope.csv")
    assert {task: len(each) for task, each in found.items()} == {"qasper": 4, "quality": 4}
    assert any(panel.title.startswith("What differs from the paper") for panel in panels)
    again = recipes.get("bipe", "table-1", "smoke", [f"data={folder}", f"checkpoint=mine={runs[0].path}", "window=40"])
    again = again.only(["quality"])
    (e,) = again.experiments
    (outcome,) = lab.run([e], tmp_path / "further", workers=1)
    assert outcome.run, outcome.error
    assert "mine" in again.panels([outcome.run])[0].text


def test_the_average_stands_where_all_seven_tasks_do():
    def run(score):
        return SimpleNamespace(result={"answers": {"score": score, "questions": 9}})

    finished = {AnswersKey(task, "rope"): [run(10.0 * n), run(10.0 * n + 2)] for n, task in enumerate(TASKS)}
    finished[AnswersKey("qasper", "mine")] = [run(5.0)]
    table = table_1.compared(finished)
    assert table.data[-1] == {
        "task": "average", "metric": "", "scores": {"rope": 31.0, "mine": None},
        "published": {"rope": 18.38, "mine": None},
    }  # fmt: skip
    assert table.data[0]["scores"] == {"rope": 1.0, "mine": 5.0}
    assert "21." not in table.text.splitlines()[1]


def test_wrong_checkpoints_are_refused():
    with pytest.raises(Error, match=r"Two checkpoints have one name: a=x, a=y. Give each its own, as NAME=PATH"):
        recipes.get("bipe", "table-1", "smoke", ["checkpoint=a=x", "checkpoint=a=y"])
    with pytest.raises(Error, match=r"there is neither qasper"):
        _ = recipes.get("bipe", "table-1", "smoke", ["checkpoint=a=nowhere/at/all", "data=."]).experiments


def test_table_2_holds_measured_scores_against_published_ones():
    found = {name: BenchmarkScore(0.25, 0.01) for name in BENCHMARKS}
    table = table_2.compared(
        {"rope": found, "mine": {**found, "mmlu": BenchmarkScore(0.5, None)}}, list(BENCHMARKS), 100
    )
    assert table.data[0]["published"] == dict(zip(BENCHMARKS, (29.00, 51.54, 44.67, 60.66, 30.86, 26.43), strict=True))
    assert set(table.data[1]["published"].values()) == {None}
    lines = table.text.splitlines()
    assert lines[1].split()[:4] == ["rope", "25.00", "±", "1.0"]
    assert lines[2].split() == ["published", "29.00", "51.54", "44.67", "60.66", "30.86", "26.43"]
    assert lines[3].split()[-1] == "50.00"


def test_table_2_trains_the_models_of_the_figures_or_takes_checkpoints(store):
    cells = recipes.get("bipe", "table-2", "smoke", [f"store={store}"]).grid.cells
    assert [cell.key for cell in cells] == list(table_2.PUBLISHED)
    assert recipes.get("bipe", "table-2", "smoke", ["checkpoint=rope=nowhere"]).experiments == []


def test_table_2_needs_lm_eval(store, monkeypatch):
    monkeypatch.setattr("lengthwise.errors.find_spec", lambda name: None)
    recipe = recipes.get("bipe", "table-2", "smoke", [f"store={store}"])
    with pytest.raises(Error, match=r"needs lm_eval, which is not installed\. pip install 'lengthwise\[harness\]'"):
        _ = recipe.experiments


def test_table_2_finds_a_misspelt_benchmark_before_it_trains(store):
    pytest.importorskip("lm_eval")
    recipe = recipes.get("bipe", "table-2", "smoke", [f"store={store}", "benchmark=piqqa"])
    with pytest.raises(Error, match="piqqa: lm-eval has no such task"):
        _ = recipe.experiments
