"""Measured beside published: what agrees, what is missing, one seed, several learning rates."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lengthwise.report.comparison import Cell, Published, Row, best_rate, comparison, finding, summed


def scored(make_run, seed, beyond, inside=1.0, *, best=None, lr=1e-3, valid=(1.0, 0.01)):
    """A run right on these shares of strings: at lengths 20 and 40 (trained on), and at 50 and 60."""
    run = make_run(seed=seed, lengths=(20, 40, 50, 60), samples=100)
    run = replace(run, experiment=replace(run.experiment, training=run.experiment.training.but(lr=lr)))

    def at(far):
        return {"step": 9, "correct": {str(n): round(100 * (far if n > 40 else inside)) for n in (20, 40, 50, 60)}}

    validation = {"accuracy": valid[0], "loss": valid[1]}
    run.result["checkpoints"] = {
        "last": at(beyond),
        "best": {**at(beyond if best is None else best), "validation": validation},
    }
    run.result["baseline"] = {"20": 0.9, "40": 0.9, "50": 0.5, "60": 0.6}
    return run


def test_a_cell_sums_up_its_runs(make_run):
    runs = [scored(make_run, 0, 0.9, 1.0, best=0.7), scored(make_run, 1, 0.5, 0.8, best=0.6)]
    cell = Cell.of(runs, Published(mean=0.9, max=1.0))
    assert cell.scores == (0.9, 0.5)
    assert cell.best == (0.7, 0.6)
    assert cell.inside == pytest.approx(0.9)
    assert cell.majority == pytest.approx(0.55), "of the lengths beyond training alone"
    assert cell.rates == ()
    assert summed(cell.scores) == "90.0 / 70.0±28.3"
    assert summed((0.5,)) == "50.0"


@pytest.mark.parametrize(
    ("measured", "published", "published_majority", "agrees"),
    [
        (1.0, 1.0, 0.5, True),
        (0.95, 1.0, 0.5, True),
        (0.94, 1.0, 0.5, False),
        (1.0, 0.94, 0.5, False),
        (0.55, 0.46, 0.5, True),  # both guess, though more than 5 points apart
        (0.5, 0.745, 0.75, True),  # both guess, where the published guess was worth more
        (0.5, 0.745, 0.5, False),
        (0.6, 0.745, 0.75, False),
    ],
)
def test_what_agrees(measured, published, published_majority, agrees):
    row = Row("r", 0.5, {"m": Cell((measured, 0.1), Published(mean=0.3, max=published), 0.5)}, published_majority)
    assert row.agrees("m") == agrees
    panel = comparison("t", [row], ["m"])
    assert ("✓ agrees" in panel.body, "≠ differs" in panel.body) == (agrees, not agrees)
    assert ("agrees" if agrees else "differs") in panel.text
    assert panel.data[0]["cells"]["m"]["agrees"] is agrees


def test_means_are_judged_where_no_maximum_was_published():
    mean_off = Row("r", 0.5, {"m": Cell((1.0, 0.6), Published(mean=1.0), 0.5)})
    assert not mean_off.agrees("m")
    assert Row("r", 0.5, {"m": Cell((1.0, 0.92), Published(mean=1.0), 0.5)}).agrees("m")
    panel = comparison("t", [mean_off], ["m"])
    assert "  published       100.0\n" in panel.text
    assert "when the two means are within 5 points" in panel.caption
    assert "not judged" not in panel.caption


def test_missing_models_leave_a_dash_and_absent_columns_go():
    cell = Cell((1.0,), Published(mean=1.0, max=1.0), 0.5)
    rows = [Row("one", 0.5, {"a": cell, "b": cell}), Row("two", 0.5, {"b": cell})]
    panel = comparison("t", rows, ["a", "b", "never"])
    assert "never" not in panel.body + panel.text
    assert panel.body.count("<td") == 4
    assert panel.body.count(">–</td>") == 1
    head, *_ = panel.text.splitlines()
    two = next(line for line in panel.text.splitlines() if line.startswith("two"))
    assert two.index("100.0") == head.index("b"), "each number in its model's column"
    assert list(panel.data[1]["cells"]) == ["b"]


def test_one_seed_has_no_deviation(make_run):
    row = Row("r", 0.5, {"m": Cell.of([scored(make_run, 0, 0.9)], Published(mean=0.9, max=1.0))})
    panel = comparison("t", [row], ["m"])
    assert "±" not in panel.text + panel.body
    assert "over 1 seed at" in panel.caption
    assert panel.data[0]["cells"]["m"]["measured"] == {"max": 0.9, "mean": 0.9, "std": None, "scores": [0.9]}


def test_the_best_rate_is_chosen_by_validation_and_all_are_shown(make_run):
    weak = [scored(make_run, seed, 1.0, lr=1e-4, valid=(1.0, 0.5)) for seed in range(2)]
    strong = [scored(make_run, seed, 0.7, lr=3e-4, valid=(1.0, 0.1)) for seed in range(2)]
    assert best_rate([*weak, *strong]) == strong, "though the other is better on the test strings"
    cell = Cell.of([*weak, *strong], Published(mean=0.9, max=1.0))
    assert (cell.scores, cell.rates) == ((0.7, 0.7), (1.0, 1.0, 0.7, 0.7))
    panel = comparison("t", [Row("r", 0.5, {"m": cell})], ["m"])
    assert "  all rates       100.0 / 85.0±17.3" in panel.text
    assert panel.data[0]["cells"]["m"]["all_rates"]["max"] == 1.0


def test_the_finding_names_what_differs_and_what_was_not_learned():
    fine = Cell((1.0,), Published(mean=1.0, max=1.0), 0.5, inside=1.0)
    low = replace(fine, scores=(0.6,), inside=0.94)
    rows = [Row("one", 0.5, {"a": fine, "b": low}), Row("two", 0.5, {"a": fine})]
    said = finding(rows)
    assert said.startswith("2 of 3 cells agree. Not: one (b). In 1 of 3 ")
    assert finding(rows[1:]) == "1 of 1 cells agree."
    assert said in comparison("t", rows, "ab").body
    assert "94.0, unlearned" in comparison("t", rows, "ab").text


def test_it_fits_a_hundred_columns_and_is_json():
    cell = Cell((1.0, 0.2, 0.3), Published(mean=1.0, max=1.0), 0.5, rates=(1.0, 0.2), inside=0.8)
    models = ["rnn", "transformer-xl", "regular-gpt C=2", "regular-gpt C=3"]
    panel = comparison("t", [Row("modular-arithmetic", 0.5, dict.fromkeys(models, cell))], models)
    *table, _ = panel.text.splitlines()
    assert max(map(len, table)) <= 100
    assert json.loads(json.dumps(panel.data)) == panel.data


def test_what_overflowed_is_below_the_table(make_run):
    runs = [scored(make_run, seed, 0.5) for seed in range(2)]
    published = Published(mean=0.9)
    fine = Cell.of(runs, published)
    runs[1].result["checkpoints"]["last"]["overflowed"] = {"60": 50}
    panel = comparison("t", [Row("r", 0.5, {"m": Cell.of(runs, published), "n": fine})], ["m", "n"], "A note.")
    assert panel.caption.endswith(" Logits that overflow count as wrong: r, m at 60, 50 of 200 strings. A note.")
    cells = panel.data[0]["cells"]
    assert (cells["m"]["overflow"], cells["n"]["overflow"]) == ("at 60, 50 of 200 strings", "")
    assert "overflow count" not in comparison("t", [Row("r", 0.5, {"n": fine})], ["n"]).caption


def test_labels_are_no_markup():
    row = Row("<i>", 0.5, {'a"<b>': Cell((1.0,), Published(mean=1.0), 0.5)})
    body = comparison("t", [row], ['a"<b>']).body
    assert "<i>" not in body.replace('<i style="width', "")
    assert '"<b>' not in body
