"""Measured beside published: what agrees, what is missing, one seed, several learning rates."""

import json
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from lengthwise import Error
from lengthwise.lab import Experiment, LengthTests, ModelSpec, TaskSpec, Training
from lengthwise.lab.choices import chosen_runs
from lengthwise.recipes.common.comparison import ComparedCell, ComparedRow, comparison, finding, spread_of

LENGTHS = (20, 40, 50, 60)


class FakeRun(NamedTuple):
    experiment: Experiment
    result: dict[str, Any]


def scored(seed, beyond, inside=1.0, *, best=None, lr=1e-3, valid=(1.0, 0.01)):
    """A run right on these shares of strings: at lengths 20 and 40 (trained on), and at 50 and 60."""
    tested = LengthTests(LENGTHS, samples=100)
    run = FakeRun(
        Experiment(TaskSpec("parity"), ModelSpec("lstm"), Training().but(lr=lr), tested, seed), {"samples": 100}
    )

    def at(far):
        return {"step": 9, "correct": {str(n): round(100 * (far if n > 40 else inside)) for n in (20, 40, 50, 60)}}

    validation = {"accuracy": valid[0], "loss": valid[1]}
    run.result["checkpoints"] = {
        "last": at(beyond),
        "best": {**at(beyond if best is None else best), "validation": validation},
    }
    run.result["baseline"] = {"20": 0.9, "40": 0.9, "50": 0.5, "60": 0.6}
    return run


def test_a_cell_sums_up_its_runs():
    runs = [scored(0, 0.9, 1.0, best=0.7), scored(1, 0.5, 0.8, best=0.6)]
    cell = ComparedCell.of(runs, {"max": 1.0, "mean": 0.9})
    assert cell.scores == (0.9, 0.5)
    assert cell.best == (0.7, 0.6)
    assert cell.inside == pytest.approx(0.9)
    assert cell.majority == pytest.approx(0.55), "of the lengths beyond training alone"
    assert cell.rates == ()
    assert spread_of(cell.scores) == "70.0 ± 28.3"
    assert spread_of((0.5,)) == "50.0"


def test_a_cell_without_training_lengths_is_refused():
    run = scored(0, 0.9)
    far = replace(run.experiment, tests=LengthTests((50, 60), samples=100))
    with pytest.raises(Error, match="lstm on parity was tested at no length of its training"):
        ComparedCell.of([run._replace(experiment=far)], {"mean": 1.0})


def row(scores, published, inside=1.0, published_majority=None):
    return ComparedRow("r", 0.5, {"m": ComparedCell(scores, published, 0.5, inside)}, published_majority)


@pytest.mark.parametrize(
    ("measured", "published", "published_majority", "agrees"),
    [
        (1.0, 1.0, 0.5, True),
        (0.95, 1.0, 0.5, True),
        (0.94, 1.0, 0.5, False),
        (1.0, 0.94, 0.5, False),
        (0.55, 0.46, 0.5, False),  # both guess, more than 5 points apart
        (0.5, 0.745, 0.75, False),
        (0.596, 0.81, 0.8, False),  # worse than a constant answer
        (0.6, 0.6, 0.5, True),
    ],
)
def test_what_agrees(measured, published, published_majority, agrees):
    for only in ({"mean": published}, {"max": published}, {"max": published, "mean": published}):
        one = row((measured, measured), only, published_majority=published_majority)
        assert one.verdict("m") == ("agrees" if agrees else "differs")
        panel = comparison("t", [one], ["m"])
        assert ("✓ agrees" in panel.html, "≠ differs" in panel.html) == (agrees, not agrees)
        assert ("agrees" if agrees else "differs") in panel.text
        assert panel.data[0]["cells"]["m"]["verdict"] == one.verdict("m")


@pytest.mark.parametrize(
    ("scores", "most", "mean", "near"),
    [
        ((1.0, 0.92), 1.0, 0.96, {"max": True, "mean": True}),
        ((1.0, 0.6), 1.0, 0.96, {"max": True, "mean": False}),
        ((0.96, 0.96), 1.02, 0.96, {"max": False, "mean": True}),
        ((1.0, 0.6), 1.0, None, {"max": True}),
        ((1.0, 0.6), None, 1.0, {"mean": False}),
    ],
)
def test_maximum_and_mean_are_both_judged_where_both_are_published(scores, most, mean, near):
    one = row(scores, {name: number for name, number in (("max", most), ("mean", mean)) if number is not None})
    assert one.cells["m"].near == near
    assert one.verdict("m") == ("agrees" if all(near.values()) else "differs")
    panel = comparison("t", [one], ["m"])
    assert panel.data[0]["cells"]["m"]["near"] == near
    names = {("max", "mean"): "both the maximum and the mean are", ("max",): "the maximum is", ("mean",): "the mean is"}
    assert f"A cell agrees when {names[tuple(near)]} within 5 points" in panel.caption


@pytest.mark.parametrize("score", [0.8, 0.82])
def test_nothing_agrees_with_a_published_guess(score):
    """Whether the published model had learned the training lengths is not known."""
    one = row((score, score), {"mean": 0.81}, published_majority=0.8)
    assert one.verdict("m") == "vacuous"
    assert row((score, score), {"mean": 0.81}, published_majority=0.7).verdict("m") == "agrees"


@pytest.mark.parametrize("published", [1.0, 0.5])
@pytest.mark.parametrize("inside", [1.0, 0.5])
def test_one_seed_neither_agrees_nor_differs(published, inside):
    one = row((1.0,), {"mean": published}, inside)
    assert one.verdict("m") == "one seed"
    panel = comparison("t", [one], ["m"])
    assert "agrees</span>" not in panel.html
    assert finding([one]) == "0 of 1 cells agree. 1 rests on one seed, which shows nothing: r (m)."


@pytest.mark.parametrize("scores", [(1.0, 1.0), (0.5, 0.5)])
@pytest.mark.parametrize(("off", "verdict", "said"), [
    (0.0, "vacuous", "1 says nothing though the numbers are near (vacuous)"),
    (0.2, "not learned", "1 proves nothing"),
])  # fmt: skip
def test_what_was_not_learned_in_training_does_not_agree(scores, off, verdict, said):
    """Neither by luck beyond the training lengths nor because the paper's model guesses as well."""
    published = {"max": max(scores) - off, "mean": max(scores) - off}
    assert row(scores, published, inside=0.95, published_majority=0.1).verdict("m") == ("differs" if off else "agrees")
    one = row(scores, published, inside=0.949, published_majority=0.1)
    assert one.verdict("m") == verdict
    panel = comparison("t", [one], ["m"])
    assert panel.data[0]["cells"]["m"]["verdict"] == verdict
    assert finding([one]).startswith(f"0 of 1 cells agree. {said}")
    assert f"– {verdict}" in panel.html
    assert "agrees</span>" not in panel.html
    assert verdict in panel.text


def test_a_column_has_a_heading_of_its_own():
    one = row((1.0, 1.0), {"mean": 0.5})
    panel = comparison("t", [one], ["m"], labels={"m": "the paper's <Ours>"})
    assert list(panel.data[0]["cells"]) == ["m"]
    assert "the paper&#x27;s &lt;Ours&gt;</th>" in panel.html
    assert "1 differs: r (the paper's <Ours>)." in panel.text
    assert panel.columns[1:] == ["the paper's <Ours>"]


def test_missing_models_leave_a_dash_and_absent_columns_go():
    cell = ComparedCell((1.0,), {"max": 1.0, "mean": 1.0}, 0.5, 1.0)
    rows = [ComparedRow("one", 0.5, {"a": cell, "b": cell}), ComparedRow("two", 0.5, {"b": cell})]
    panel = comparison("t", rows, ["a", "b", "never"])
    assert "never" not in panel.html + panel.text
    assert panel.html.count("<td") == 4
    assert panel.html.count(">–</td>") == 1
    head = panel.text.split("\n\n")[1].splitlines()[0]
    two = next(line for line in panel.text.splitlines() if line.startswith("two"))
    assert two.index("100.0") == head.rindex("b"), "each number in its model's column"
    assert list(panel.data[1]["cells"]) == ["b"]


def test_one_seed_has_no_deviation():
    row = ComparedRow("r", 0.5, {"m": ComparedCell.of([scored(0, 0.9)], {"max": 1.0, "mean": 0.9})})
    panel = comparison("t", [row], ["m"])
    assert "±" not in panel.text + panel.html
    assert "over 1 seed at" in panel.caption
    assert panel.data[0]["cells"]["m"]["measured"] == {"max": 0.9, "mean": 0.9, "std": None, "scores": [0.9]}


def test_the_best_rate_is_chosen_by_validation_and_all_are_shown():
    weak = [scored(seed, 1.0, lr=1e-4, valid=(1.0, 0.5)) for seed in range(2)]
    strong = [scored(seed, 0.7, lr=3e-4, valid=(1.0, 0.1)) for seed in range(2)]
    assert chosen_runs([*weak, *strong], ["training.lr"]) == strong, "though the other is better on the test strings"
    cell = ComparedCell.of([*weak, *strong], {"max": 1.0, "mean": 0.9})
    assert (cell.scores, cell.rates) == ((0.7, 0.7), (1.0, 1.0, 0.7, 0.7))
    panel = comparison("t", [ComparedRow("r", 0.5, {"m": cell})], ["m"])
    assert {("all rates: max", "100.0"), ("all rates: mean", "85.0 ± 17.3")} <= {*panel.rows[0][1].notes}
    assert panel.data[0]["cells"]["m"]["all_rates"]["max"] == 1.0


def test_the_finding_names_what_differs_and_what_was_not_learned():
    fine = ComparedCell((1.0, 1.0), {"max": 1.0, "mean": 1.0}, 0.5, inside=1.0)
    low, unlearned = replace(fine, scores=(0.6, 0.6)), replace(fine, inside=0.94)
    rows = [ComparedRow("one", 0.5, {"a": fine, "b": low}), ComparedRow("two", 0.5, {"a": fine, "b": unlearned})]
    sentence = finding(rows)
    assert sentence == (
        "2 of 4 cells agree. 1 differs: one (b). 1 says nothing though the numbers are near (vacuous), for the task "
        "was not learned at the training lengths, or the published model guesses: two (b)."
    )
    assert finding([ComparedRow("two", 0.5, {"a": fine})]) == "1 of 1 cells agree."
    assert sentence in comparison("t", rows, "ab").html


def test_it_fits_a_hundred_columns_and_is_json():
    cell = ComparedCell((1.0, 0.2, 0.3), {"max": 1.0, "mean": 1.0}, 0.5, rates=(1.0, 0.2), inside=0.8)
    models = ["rnn", "transformer-xl", "regular-gpt C=2", "regular-gpt C=3"]
    panel = comparison("t", [ComparedRow("modular-arithmetic", 0.5, dict.fromkeys(models, cell))], models)
    _, *table = panel.text.splitlines()
    assert max(map(len, table)) <= 100
    assert json.loads(json.dumps(panel.data)) == panel.data


def test_what_overflowed_is_below_the_table():
    runs = [scored(seed, 0.5) for seed in range(2)]
    published = {"mean": 0.9}
    fine = ComparedCell.of(runs, published)
    runs[1].result["checkpoints"]["last"]["overflowed"] = {"60": 50}
    panel = comparison(
        "t", [ComparedRow("r", 0.5, {"m": ComparedCell.of(runs, published), "n": fine})], ["m", "n"], "A note."
    )
    assert panel.caption.endswith(" Logits that overflow count as wrong: r, m at 60, 50 of 200 strings. A note.")
    cells = panel.data[0]["cells"]
    assert (cells["m"]["overflow"], cells["n"]["overflow"]) == ("at 60, 50 of 200 strings", "")
    assert "overflow count" not in comparison("t", [ComparedRow("r", 0.5, {"n": fine})], ["n"]).caption
