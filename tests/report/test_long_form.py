"""A row for each run and test length: the same in CSV, JSON and pandas, with the settings that differ and no others."""

from __future__ import annotations

import csv
import json

import pytest

from lengthwise import Error, report
from lengthwise.lab.experiment import TaskSpec

from .pages import page


def test_a_row_for_each_run_and_length(runs, tmp_path):
    path = report.csv(runs, tmp_path / "deep" / "results.csv")
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    lengths = len(runs[0].experiment.tests.lengths)
    assert len(rows) == len(runs) * lengths
    by_hash = {run.experiment.hash: run for run in runs}
    for row in rows[:: lengths // 3]:
        run = by_hash[row["hash"]]
        for checkpoint, before in (("last", ""), ("best", "best_")):
            correct = run.result["checkpoints"][checkpoint]["correct"][row["length"]]
            assert int(row[f"{before}correct"]) == correct
            assert float(row[f"{before}accuracy"]) == correct / 512
        assert float(row["wilson_low"]) <= float(row["accuracy"]) <= float(row["wilson_high"])
        assert float(row["majority"]) == run.result["baseline"][row["length"]]
        assert (row["model"], int(row["seed"])) == (run.experiment.model.name, run.experiment.seed)
    assert list(tmp_path.rglob("*.tmp")) == []


def test_settings_that_differ_are_columns_and_the_rate_and_the_steps_always(make_run):
    def settings(*runs):
        return [name for name in report.rows(runs)[0] if "." in name]

    assert settings(make_run(), make_run("gru")) == ["training.lr", "training.steps"]
    five, three = TaskSpec("modular-sum"), TaskSpec("modular-sum", {"modulus": 3})
    wide, long = make_run(options={"width": 128}, task=five), make_run(task=three, train=(1, 80))
    assert set(settings(wide, long)) == {
        "training.lr",
        "training.steps",
        "model.width",
        "task.modulus",
        "training.lengths",
    }
    first = {row["hash"]: row for row in report.rows([wide, long])}
    cells = [
        [first[run.experiment.hash][name] for name in ("model.width", "task.modulus", "training.lengths")]
        for run in (wide, long)
    ]
    assert cells == [[128, 5, "1,40"], [64, 3, "1,80"]], "what was left out stands at its default"
    assert settings(make_run(options={"width": 64}), make_run()) == ["training.lr", "training.steps"], (
        "64 is the default"
    )


def test_the_frame_is_grouped_by_any_column(runs, make_run, tmp_path):
    pandas = pytest.importorskip("pandas")
    slow = make_run("lstm", 1, options={"width": 32})
    frame = report.frame([*runs, slow])
    assert list(frame.columns) == list(pandas.read_csv(report.csv([*runs, slow], tmp_path / "rows.csv")).columns)
    for name in frame.columns:
        frame.groupby(name)
    mean = frame[frame["model.width"] != 32].groupby(["model", "length"]).accuracy.mean()
    by_hand = [run.result["checkpoints"]["last"]["correct"]["1000"] / 512 for run in runs[3:6]]
    assert mean["lstm", 1000] == pytest.approx(sum(by_hand) / 3)
    beyond = frame[frame.length > frame.train_high]
    assert beyond.length.min() == 41


def test_runs_on_text_stand_in_the_same_table(runs, make_text_run, tmp_path):
    chained = make_text_run([{"name": "chain", "gamma": 0.9}])
    rows = report.rows([runs[0], make_text_run(), chained])
    assert len({tuple(row) for row in rows}) == 1
    strings, plain, last = rows[0], rows[-2], rows[-1]
    assert (strings["task"], strings["text"], strings["perplexity"]) == ("parity", None, None)
    assert (plain["task"], plain["text"], plain["length"], plain["accuracy"]) == (None, "text", 32, None)
    assert (last["perplexity_before"], last["perplexity"]) == (23.75, 20.5)
    assert json.loads(last["model.conversions"]) == [{"gamma": 0.9, "name": "chain"}]
    mixed = [*runs, chained]
    assert "20.5" in page(mixed)
    data = json.loads(json.dumps(report.data(mixed)))
    assert data["rows"] == json.loads(json.dumps(report.rows(mixed)))
    assert [panel["title"] for panel in data["panels"]] == ["Perplexity"]
    assert "accuracy" not in report.rows([chained])[0]
    assert report.csv([chained], tmp_path / "text.csv").read_text().count("\n") == 2


def test_without_pandas_the_line_that_installs_it_is_said(runs, monkeypatch):
    monkeypatch.setattr("lengthwise.errors.find_spec", lambda name: None)
    with pytest.raises(Error, match=r"pip install 'lengthwise\[pandas\]'"):
        report.frame(runs)
