"""Pairs of runs: who is whose partner, and the difference of their accuracies by hand."""

from __future__ import annotations

import json
import math

import pytest

from lengthwise import Error, lab, report
from lengthwise.errors import UnknownName
from lengthwise.lab.experiment import TaskSpec
from lengthwise.lab.statistics import mean_interval, student


def scored(make_run, fifty, sixty, seed, model="lstm", **settings):
    """A run with so many of 100 strings right at 50 and at 60."""
    run = make_run(model, seed, lengths=(50, 60), samples=100, **settings)
    run.result["checkpoints"]["last"]["correct"] = {"50": fifty, "60": sixty}
    return run


@pytest.fixture
def rates(make_run):
    """Three pairs of two learning rates, and one run that has no partner."""
    slow = [scored(make_run, n, 50, seed, lr=1e-4) for seed, n in enumerate((60, 70, 80))]
    fast = [scored(make_run, n, 60, seed, lr=1e-3) for seed, n in enumerate((70, 90, 100))]
    return slow, [*fast, scored(make_run, 100, 100, 3, lr=1e-3)]


@pytest.mark.parametrize(
    ("freedom", "t"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (5, 2.5706), (9, 2.2622), (30, 2.0423), (120, 1.9799)]
)
def test_quantiles_are_those_of_the_tables(freedom, t):
    assert student(freedom) == pytest.approx(t, abs=1e-4)


def test_differences_and_interval_by_hand(rates):
    data = report.paired(*rates).data
    fifty, sixty = data["lengths"]
    # Gains of 10, 20 and 20 points: mean 50/3, deviation 10/sqrt(3), and t of two degrees of freedom is 4.30265.
    half = 4.30265 * 0.1 / math.sqrt(3) / math.sqrt(3)
    assert (fifty["lengths"], fifty["pairs"], fifty["better"], fifty["worse"]) == ((50,), 3, 3, 0)
    assert (fifty["first"], fifty["second"]) == (pytest.approx(0.7), pytest.approx(260 / 300))
    assert fifty["difference"] == pytest.approx(0.5 / 3)
    assert [fifty["low"], fifty["high"]] == pytest.approx([0.5 / 3 - half, 0.5 / 3 + half], abs=1e-5)
    assert [sixty[name] for name in ("difference", "low", "high")] == pytest.approx([0.1] * 3)
    assert mean_interval([0.3]) is None


def test_pairs_and_the_runs_without_a_partner_are_named(rates):
    slow, fast = rates
    panel = report.paired(slow, fast)
    assert panel.title == "training.lr: 0.001 instead of 0.0001"
    assert [(p["seed"], p["first"], p["second"]) for p in panel.data["pairs"]] == [
        (seed, slow[seed].path.name, fast[seed].path.name) for seed in range(3)
    ]
    assert panel.data["unpaired"] == [fast[3].path.name]
    assert f"left out: {fast[3].path.name}." in panel.caption
    assert "no width" in panel.caption
    assert json.loads(json.dumps(panel.to_json()))["data"]["compared"] == {"training.lr": [1e-4, 1e-3]}
    row = panel.text.splitlines()[1].split()
    assert row == ["50", "70.0", "86.7", "+16.7", "+2.3", "to", "+31.0", "3", "3", "0"]


def test_all_other_settings_must_be_equal(make_run, rates):
    slow, fast = rates
    wide = [scored(make_run, 10, 10, seed, lr=1e-3, options={"width": 128}) for seed in range(3)]
    (panel,) = report.compare([*slow, *fast, *wide], "training.lr")
    assert len(panel.data["pairs"]) == 3
    assert {run.path.name for run in wide} < set(panel.data["unpaired"])
    both = report.paired(slow, wide)
    assert set(both.data["compared"]) == {"training.lr", "model.width"}, "what differs on both sides is said"
    with pytest.raises(Error, match="No two of these runs are a pair"):
        report.compare([slow[0], fast[1]], "training.lr")
    with pytest.raises(Error, match="no setting that all runs of one side share"):
        report.paired(slow, slow)


def test_an_option_left_out_is_the_default(make_run):
    left_out = scored(make_run, 50, 50, 0, lr=1e-4)
    said = scored(make_run, 70, 70, 0, lr=1e-3, options={"width": 64})
    assert len(report.paired([left_out], [said]).data["pairs"]) == 1


def test_models_go_with_their_own_options(make_run):
    runs = [scored(make_run, 50, 50, seed, "lstm", options={"width": w}) for w in (8, 16) for seed in (0, 1)]
    runs += [scored(make_run, 60 + w, 50, seed, "gru", options={"width": w}) for w in (8, 16) for seed in (0, 1)]
    (panel,) = report.compare(runs, "model")
    assert panel.title == "model: gru instead of lstm"
    assert [p["first"].split("-s")[0] for p in panel.data["pairs"]] == ["parity-lstm"] * 4
    assert panel.data["lengths"][0]["difference"] == pytest.approx((0.18 + 0.26) / 2)
    other = [scored(make_run, 50, 50, 0, "transformer")]
    assert "model.heads" in report.compare([runs[0], *other], "model")[0].data["compared"]


def test_tasks_are_kept_apart(make_run):
    sums = TaskSpec("modular-sum")
    runs = [
        scored(make_run, 50 + 10 * i, 50, 0, lr=lr, task=task)
        for i, lr in enumerate((1e-4, 1e-3))
        for task in (TaskSpec("parity"), sums)
    ]
    (panel,) = report.compare(runs, "training.lr")
    assert [line.split()[:2] for line in panel.text.splitlines()[1:]] == [
        ["parity", "50"], ["parity", "60"], ["modular-sum", "50"], ["modular-sum", "60"]
    ]  # fmt: skip
    assert "One pair has no interval" in panel.caption


def test_what_cannot_be_compared_is_said(rates, make_text_run):
    runs = [*rates[0], *rates[1]]
    with pytest.raises(UnknownName, match=r"Did you mean 'training\.lr'"):
        report.compare(runs, "training.lrr")
    with pytest.raises(Error, match=r"all 7 runs have 1000"):
        report.compare(runs, "training.steps")
    with pytest.raises(Error, match="paired by it"):
        report.compare(runs, "seed")
    with pytest.raises(Error, match="is on text"):
        report.paired([make_text_run()], runs)
    with pytest.raises(Error, match="runs on both sides, got 0 and 7"):
        report.paired([], runs)


def test_overall_is_the_mean_over_all_common_lengths(rates, make_run):
    data = report.paired(*rates).data
    (overall,) = data["overall"]
    # Gains over both lengths of 10, 15 and 15 points: mean 40/3, deviation 5/sqrt(3).
    half = 4.30265 * 0.05 / 3
    assert (overall["lengths"], overall["pairs"], overall["better"]) == ((50, 60), 3, 3)
    assert overall["difference"] == pytest.approx(0.4 / 3)
    assert [overall["low"], overall["high"]] == pytest.approx([0.4 / 3 - half, 0.4 / 3 + half], abs=1e-5)
    finding = report.paired(*rates).finding
    assert finding.startswith("Over all 2 lengths 0.001 less 0.0001 is +13.3 points, 95% interval +6.2 to +20.5;")
    assert finding.endswith("better in 3 of 3 seeds, worse in 0.")
    shorter = [make_run("lstm", seed, lengths=(50,), samples=100, lr=1e-3) for seed in range(3)]
    assert [each["lengths"] for each in report.paired(rates[0], shorter).data["lengths"]] == [(50,)]


def test_two_pairs_have_no_interval(rates):
    slow, fast = rates
    panel = report.paired(slow[:2], fast[:2])
    assert (panel.data["overall"][0]["low"], panel.data["lengths"][0]["high"]) == (None, None)
    assert "Two seeds have no interval: run 3 seeds." in panel.caption
    assert "95% interval +" not in panel.text


def test_values_can_be_named(rates, make_run):
    runs = [*rates[0], *rates[1], *(scored(make_run, 50, 50, seed, lr=1e-2) for seed in range(3))]
    (panel,) = report.compare(runs, "training.lr=1e-3,0.0001")
    assert panel.data["compared"] == {"training.lr": [1e-3, 1e-4]}
    assert [panel.data["compared"]["training.lr"] for panel in report.compare(runs, "training.lr")] == [
        [1e-4, 1e-3], [1e-4, 1e-2]
    ]  # fmt: skip
    with pytest.raises(UnknownName, match=r"Unknown value of training\.lr"):
        report.compare(runs, "training.lr=1e-3,7")
    with pytest.raises(Error, match="nothing to compare"):
        report.compare(runs, "training.lr=1e-3")


def test_a_pair_is_tested_on_the_same_strings(make_run):
    tasks = [TaskSpec("modular-sum", {"modulus": m}) for m in (3, 4)]
    sides = [[scored(make_run, 50, 50, seed, task=task) for seed in range(3)] for task in tasks]
    for compare in (lambda: report.paired(*sides), lambda: report.compare([*sides[0], *sides[1]], "task.modulus")):
        with pytest.raises(Error, match=r"task\.modulus decides which strings are tested"):
            compare()
    other = [make_run("gru", seed, lengths=(70,), samples=100, task=tasks[0]) for seed in range(3)]
    with pytest.raises(Error, match="no length at which all"):
        report.paired(sides[0], other)


def test_what_was_swept_does_not_part_the_chosen(make_run):
    runs = []
    for model, best in (("lstm", 1e-3), ("gru", 1e-4)):
        for lr in (1e-4, 1e-3):
            for seed in range(3):
                run = scored(make_run, 50 + 10 * (model == "gru") + 20 * (lr == best), 50, seed, model, lr=lr)
                run.result["checkpoints"]["best"]["validation"] = {"accuracy": 0.5 + 0.1 * (lr == best), "loss": 1.0}
                runs.append(run)
    (panel,) = report.compare(runs, "model", sweep=["training.lr"])
    assert panel.data["compared"] == {"model": ["lstm", "gru"], "training.lr": [1e-3, 1e-4]}
    assert panel.data["lengths"][0]["difference"] == pytest.approx(0.1)
    (panel,) = report.compare(runs, "training.lr", sweep=["training.lr"])
    assert len(panel.data["pairs"]) == 6, "what is compared itself is compared whole"
    overall = panel.data["overall"][0]
    assert (overall["pairs"], overall["seeds"], overall["worse"]) == (6, 3, 0), (
        "two pairs of a seed are one observation"
    )
    choices = lab.choose(runs, ["training.lr"])
    assert "training.lr: 0.0001 instead of 0.001" in report.compare(runs, "model", sweep=choices)[0].title
