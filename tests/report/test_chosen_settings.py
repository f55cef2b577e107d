"""A sweep in a report: the chosen setting stands for its model, the others for nothing but validation."""

from __future__ import annotations

import pytest

from lengthwise import lab, report
from lengthwise.report.contents import Content

from .pages import page


@pytest.fixture
def swept(make_run):
    """Three rates of two models; the lstm's middle one validates best and tests worst."""
    runs = []
    for model, best in (("lstm", 1), ("gru", 2)):
        for i, lr in enumerate((1e-4, 1e-3, 1e-2)):
            for seed in range(2):
                run = make_run(model, seed, lengths=(50, 60), samples=100, lr=lr)
                run.result["checkpoints"]["last"]["correct"] = {"50": 90 - 40 * (i == best), "60": 77}
                right = 0.9 - 0.1 * abs(i - best) + 0.02 * seed
                run.result["checkpoints"]["best"]["validation"] = {"accuracy": right, "loss": 0.1}
                runs.append(run)
    return runs


def test_the_chosen_setting_is_the_models_row(swept):
    data = report.data(swept, sweep=["training.lr"])
    rows = data["tasks"][0]["models"]
    assert [(row["label"], row["training"]["lr"], row["seeds"]) for row in rows] == [
        ("lstm", 1e-3, [0, 1]), ("gru", 1e-2, [0, 1])
    ]  # fmt: skip
    assert rows[0]["note"] == "lr=0.001: chosen of 3 settings on validation alone"
    assert rows[0]["ranges"][0]["last"]["mean"] == 0.5, "though its tests are the worst"
    assert len(data["rows"]) == 2 * 2 * 2
    (panel,) = data["panels"]
    lstm, gru = panel["data"]
    assert [(point["values"], round(point["validation"], 3), point["missing"]) for point in lstm["grid"]] == [
        ({"training.lr": 1e-4}, 0.81, 0), ({"training.lr": 1e-3}, 0.91, 0), ({"training.lr": 1e-2}, 0.81, 0)
    ]  # fmt: skip
    assert lstm["grid"][1]["std"] == pytest.approx(0.02 / 2**0.5)
    assert (lstm["edges"], len(gru["edges"])) == ([], 1)
    assert "gru, training.lr=0.01 is the highest that was tried" in panel["caption"]


def test_table_and_page_say_how_it_was_chosen(swept):
    text = str(report.table(swept, sweep={"training.lr": [1e-4, 1e-3, 1e-2]}))
    assert "lr=0.001:" in text, "below the model's name"
    assert "lstm, lr=0.001   91.0 ± 1.4, chosen" in text
    assert "lstm lr=" not in text, "one row a model"

    html = page(swept, sweep=["training.lr"])
    for words in ("lstm: lr=0.001: chosen of 3 settings", "gru, lr=0.0001", "Made from 4 run records"):
        assert words in html
    assert html.count("chosen of 3 settings on validation alone") == 4, "at the top and in each model's row"


def test_without_a_sweep_nothing_is_chosen(swept):
    assert len(report.data(swept)["tasks"][0]["models"]) == 6
    content = Content.of(swept)
    assert (content.runs, content.panels) == (swept, [])


def test_runs_on_text_stay_where_a_setting_is_chosen(swept, make_text_run):
    on_text = make_text_run()
    runs = Content.of([*swept, on_text], sweep=["training.lr"]).runs
    assert on_text in runs
    assert len(runs) < len(swept)


def test_what_failed_is_in_the_grid(swept, make_run):
    left = [run for run in swept if not (run.experiment.seed == 1 and run.experiment.training.optimizer.lr == 1e-3)]
    choices = lab.choose(left, ["training.lr"], [run.experiment for run in swept])
    lstm = report.data(left, sweep=choices)["panels"][0]["data"][0]
    assert [point["missing"] for point in lstm["grid"]] == [0, 1, 0]
    assert lstm["chosen"] != {"training.lr": 1e-3}
    assert "1 of 2" in Content.of(left, sweep=choices).panels[0].text
