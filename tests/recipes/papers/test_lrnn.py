"""Table 2: the published setting, what every scale runs, and the smallest scale from end to end."""

import contextlib
import io
import json
from copy import deepcopy

import pytest

from lengthwise import lab
from lengthwise.cli import main
from lengthwise.recipes.common.rules import differences, settings_of
from lengthwise.recipes.papers.lrnn.table_2 import (
    MODELS,
    PUBLISHED,
    RULES,
    TABLE_2,
    TASKS,
    checkpoints,
    compared,
    planned,
)

SHORT = [("even-pairs", model) for model in MODELS]
"""The row that is run: others would ask nothing else."""


@pytest.mark.parametrize("scale", ["smoke", "laptop", "overnight", "paper"])
@pytest.mark.parametrize("task", TASKS)
def test_the_papers_model_and_the_automaton_have_one_budget(scale, task):
    ours, automaton = (planned(scale, task, model) for model in ("block-lrnn", "block-lrnn automaton"))
    first = {"initialisation": "official"} if scale == "overnight" else {}
    for one, other in zip(ours, automaton, strict=True):
        assert (one.training, one.tests, one.seed) == (other.training, other.tests, other.seed)
        assert one.model.options == {**other.model.options, "variant": "official", **first}
        assert other.model.options["variant"] == "automaton"


def test_what_was_shrunk_names_no_published_rule():
    rows = differences(RULES["paper"], RULES["laptop"], TASKS, MODELS)
    assert {"for": "all", "setting": "training.steps", "published": 40_000, "here": 1000} in rows
    assert ("all", "training.weight_decay") not in {(row["for"], row["setting"]) for row in rows}
    # S4's family learns ModArith(5) from whole strings, as published, though the others' strings grow there.
    back = [(row["for"], row["setting"]) for row in rows if row["published"] == row["here"]]
    assert back == [("modular-arithmetic, *s4", f"training.{name}") for name in ("lengths", "curriculum")]
    assert {"for": "*s4", "setting": "model.layers", "published": 1, "here": 3} in rows
    assert settings_of(RULES["laptop"], "modular-sum", "block-lrnn")["model.layers"] == 1


SHORTER = {"steps": 2000, "validate_every": 200, "checkpoint_every": 200}
"""What `overnight` has of its own, on expressions."""


def test_overnight_is_the_published_setting_but_for_the_longest_runs():
    for task in TASKS:
        for model in MODELS:
            ours, published = (planned(scale, task, model) for scale in ("overnight", "paper"))
            cut = (task, MODELS[model].preset) == ("modular-arithmetic", "block-lrnn")
            assert [e.training.but(**SHORTER) if cut else e.training for e in published] == [e.training for e in ours]
            assert [(e.data, e.tests, e.seed) for e in published] == [(e.data, e.tests, e.seed) for e in ours]
    rows = differences(RULES["paper"], RULES["overnight"], TASKS, MODELS)
    assert [(row["setting"], row["here"]) for row in rows] == [("training.steps", SHORTER["steps"])]


@pytest.fixture(scope="module")
def data(root):
    page = root / "page.html"
    call = ["reproduce", "lrnn", "table-2", "--scale", "smoke", "--workers", "1", "--out", str(root), "--json"]
    call += ["--only", "even-pairs"]
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.MonkeyPatch.context() as patch:
        patch.setattr("lengthwise.report.charts.chart_in_html", lambda chart: "")
        assert main([*call, "--html", str(page)]) == 0
    return {**json.loads(out.getvalue()), "page": page.read_text()}


def share(run, checkpoint, length):
    return run.result["checkpoints"][checkpoint]["correct"][str(length)] / run.result["samples"]


def test_smoke_compares_what_the_runs_measured(data, root):
    assert data["failures"] == []
    compared, both, *learning, changed = data["panels"]
    assert [row["row"] for row in compared["data"]] == ["EvenPair(5)"]
    assert compared["data"][0]["majority"] == pytest.approx(0.8)
    runs = {run.experiment.hash: run for run in lab.load(root)}
    for (task, model), row in zip(SHORT, both["data"], strict=True):
        run, asked = runs[planned("smoke", task, model)[0].hash], TASKS[task]
        cells = next(r for r in compared["data"] if r["row"] == asked.label)["cells"]
        if model in PUBLISHED:
            beside = cells[model]
            assert beside["measured"]["scores"] == [share(run, "last", asked.tested)]
            assert beside["training_lengths"] == share(run, "last", asked.trained)
            assert beside["published"]["mean"] == row["published"] == TABLE_2[task][PUBLISHED.index(model)]
        else:
            assert (model in cells, row["published"]) == (False, None)
        assert (row["row"], row["model"], row["seeds"]) == (asked.label, model, 1)
        for checkpoint in ("last", "best"):
            for n in (asked.trained, asked.tested):
                assert row[f"{checkpoint} at {n}"] == {"max": (s := share(run, checkpoint, n)), "mean": s, "std": None}
    assert [panel["title"] for panel in learning] == ["Learning EvenPair(5)"]
    last = runs[planned("smoke", *SHORT[-1])[0].hash]
    validated = [r["accuracy"] for r in last.metrics if r["kind"] == "validation"]
    assert learning[-1]["data"]["series"][SHORT[-1][1]] == {"x": [2.0, 4.0], "y": validated}
    assert changed["title"] == "What differs from the paper at smoke scale"


def test_smoke_says_what_proves_nothing(data):
    assert all(row["fails_in_training"] for row in data["panels"][1]["data"]), "nothing is learned in four steps"
    for said in (
        "selected on the test set",
        "fails already in training",
        "majority answer 80.0",
        "published mean 72.0",
    ):
        assert said in data["page"], said


def test_a_cell_that_is_right_at_the_training_length_does_not_fail_there(root):
    (outcome,) = lab.run(planned("smoke", "even-pairs", "s4d"), root, workers=1, device="cpu")
    assert outcome.run
    runs = [changed(outcome.run, 8, 4), changed(outcome.run, 8, 8), changed(outcome.run, 7, 6)]
    panel = checkpoints({("even-pairs", "s4d"): runs})
    (row,) = panel.data
    assert row["fails_in_training"] is False
    assert (row["last at 500"]["max"], row["last at 500"]["mean"]) == (1.0, 0.75)
    assert row["last at 500"]["std"] == pytest.approx(0.25)
    assert "100.0 / 75.0 ± 25.0" in panel.text
    assert checkpoints({("even-pairs", "s4d"): [changed(outcome.run, 7, 8)]}).data[0]["fails_in_training"] is True


def test_what_overflowed_is_said(root):
    (outcome,) = lab.run(planned("smoke", "even-pairs", "s4d"), root, workers=1, device="cpu")
    assert outcome.run
    run = deepcopy(outcome.run)
    run.result["checkpoints"]["last"]["overflowed"] = {"500": 3}
    panel = checkpoints({("even-pairs", "s4d"): [run]})
    said = "Logits that overflow count as wrong: EvenPair(5), s4d at 500, 3 of 8 strings."
    assert panel.caption.endswith(f" {said}")
    assert panel.data[0]["overflowed"] == {"last at 40": 0, "last at 500": 3, "best at 40": 0, "best at 500": 0}
    assert said in compared({("even-pairs", "s4d"): [run]}).caption
    assert "overflow" not in checkpoints({("even-pairs", "s4d"): [outcome.run]}).caption


def changed(run, inside, beyond):
    """The run as if so many of its eight strings had been right."""
    correct = {"40": inside, "500": beyond}
    result = {**run.result, "checkpoints": {which: {"correct": correct} for which in ("last", "best")}}
    return run._replace(result=result)
