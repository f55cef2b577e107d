"""Tables, CSV and data: the right runs in the right groups, and the figures a reader can check."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace

import pytest
from rich.console import Console

from lengthwise import Error, lab, report
from lengthwise.lab.experiment import TaskSpec
from lengthwise.report.contents import Content
from lengthwise.report.provenance import how_it_was_run
from lengthwise.report.section_panel import band, curve, learning_curves, lengths_by_point
from lengthwise.report.sections import group_runs, labelled

from .pages import page


def text(runs, width=80):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(report.table(runs))
    return console.export_text()


def test_seeds_are_one_group_and_models_others(runs):
    (part,) = group_runs(runs)
    assert [(g.label, [r.experiment.seed for r in g.runs]) for g in part.groups] == [
        ("regular-gpt", [0, 1, 2]),
        ("lstm", [0, 1, 2]),
        ("transformer", [0, 1, 2]),
    ]
    assert [r.label for r in part.ranges] == ["1–40", "41–481", "1,000", "2,000", "4,000"]


def test_a_run_given_twice_counts_once(runs):
    assert [len(g.runs) for g in group_runs([*runs, *runs])[0].groups] == [3, 3, 3]


def burst(make_run, seed, last, best=None):
    run = make_run(seed=seed, lengths=(20, 50, 60), samples=100)
    run.result["checkpoints"]["last"]["overflowed"] = last
    run.result["checkpoints"]["best"]["overflowed"] = best or {}
    return run


def test_what_overflowed_alike_at_both_checkpoints_is_said_once(make_run):
    said = " ".join(text([burst(make_run, 0, {"60": 3}, {"60": 3})]).split())
    assert said.count("3 of 100 strings") == 1


def test_what_overflowed_is_said_wherever_the_table_is(make_run, tmp_path):
    """Of three runs one says nothing of overflows: it is from before they were counted."""
    runs = [burst(make_run, 0, {"60": 100}), burst(make_run, 1, {"60": 30}, {"50": 1, "60": 2})]
    runs.append(make_run(seed=2, lengths=(20, 50, 60), samples=100))
    said = "Logits that overflow count as wrong: lstm at 60, 130 of 300 strings; "
    said += "lstm (best valid.) at 2 lengths from 50 to 60, 3 of 600 strings."
    assert said in " ".join(text(runs).split())
    assert f"<br>{said}</p>" in page(runs)
    ranges = report.data(runs)["tasks"][0]["models"][0]["ranges"]
    assert [r["overflowed"] for r in ranges] == [
        {"last": 0, "best": 0}, {"last": 0, "best": 1}, {"last": 130, "best": 2}
    ]  # fmt: skip
    with open(report.csv(runs, tmp_path / "results.csv"), newline="") as file:
        rows = {(row["seed"], row["length"]): row for row in csv.DictReader(file)}
    found = {key: (int(row["overflowed"]), int(row["best_overflowed"])) for key, row in rows.items()}
    assert {key: counts for key, counts in found.items() if any(counts)} == {
        ("0", "60"): (100, 0), ("1", "60"): (30, 2), ("1", "50"): (0, 1)
    }  # fmt: skip


def test_where_nothing_overflowed_nothing_is_said(runs):
    assert "overflow count" not in text(runs) + page(runs)


def test_labels_tell_what_differs(make_run):
    narrow, wide = make_run(options={"width": 32}), make_run(options={"width": 64})
    long = make_run(options={"width": 64}, steps=2000)
    assert [g.label for g in group_runs([narrow, wide])[0].groups] == ["lstm width=32", "lstm width=64"]
    labels = [g.label for g in group_runs([narrow, wide, long, make_run("gru")])[0].groups]
    assert labels == ["lstm width=32 steps=1000", "lstm width=64 steps=1000", "lstm width=64 steps=2000", "gru"]


def test_questions_are_kept_apart(make_run):
    five, three = TaskSpec("modular-sum", {"modulus": 5}), TaskSpec("modular-sum", {"modulus": 3})
    parts = group_runs([make_run(task=five), make_run(task=three), make_run(task=five, lengths=(50, 60))])
    assert [p.title for p in parts] == ["modular-sum", "modular-sum", "modular-sum (modulus=3)"]
    assert parts[1].lengths == [50, 60]


def test_nothing_to_report_is_said():
    with pytest.raises(Error, match="no finished run"):
        report.table([])


def test_table_figures_by_hand(make_run):
    first, second = make_run(seed=0, lengths=(50, 60), samples=10), make_run(seed=1, lengths=(50, 60), samples=10)
    for run, last in ((first, {"50": 10, "60": 8}), (second, {"50": 6, "60": 4})):
        run.result["checkpoints"] = {
            "last": {"step": 9, "correct": last},
            "best": {"step": 5, "correct": {"50": 7, "60": 7}},
        }
    shown = text([first, second])
    table = [re.split("  +", line.strip())[:2] for line in shown.split("\n\n")[1].splitlines()]
    # mean ± std, max, Wilson of 16 of 20, best validation ± std
    assert table[:5] == [
        ["accuracy, %", "50"], ["lstm", "80.0 ± 28.3"], ["max", "100.0"], ["95%", "58.4–91.9"],
        ["best valid.", "70.0 ± 0.0"]
    ]  # fmt: skip
    assert [row[0] for row in table[5:]] == ["majority answer", "lstm: 53.1k parameters, 2 seeds, 13 s of training"]


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_table_fits_eighty_columns(runs, seeds):
    shown = text([run for run in runs if run.experiment.seed < seeds])
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    for word in ("regular-gpt", "53.1k parameters", "95%", "best valid.", "4,000"):
        assert word in shown
    assert ("±" in shown) == (seeds > 1)


def test_data_is_json_and_agrees_with_the_table(runs):
    data = json.loads(json.dumps(report.data(runs)))
    (task,) = data["tasks"]
    assert (task["task"], task["trained_on"]) == ("parity", [1, 40])
    lstm = task["models"][1]
    assert (lstm["label"], lstm["seeds"]) == ("lstm", [0, 1, 2])
    recorded = {str(run.path): run.result for run in runs}
    assert len(lstm["runs"]) == 3
    for run in lstm["runs"]:
        assert all(run[key] == recorded[run["path"]][key] for key in ("date", "command", "machine", "seconds"))
    bulk = lstm["ranges"][1]
    assert (bulk["from"], bulk["to"], bulk["lengths"], bulk["trained"]) == (41, 481, 23, False)
    assert f"{100 * bulk['last']['mean']:.1f} ± {100 * bulk['last']['std']:.1f}" in text(runs)


def test_band_is_the_seeds_or_the_interval(runs):
    group = group_runs(runs)[0].groups[1]
    low, middle, high = band(group, [(1000,)])
    scores = [run.result["checkpoints"]["last"]["correct"]["1000"] / 512 for run in group.runs]
    assert (low[0], high[0]) == (min(scores), max(scores))
    assert middle[0] == pytest.approx(sum(scores) / 3)
    low, middle, high = band(replace(group, runs=group.runs[:1]), [(1000,)])
    assert low[0] < middle[0] < high[0] < low[0] + 0.1


def test_many_lengths_are_drawn_together(make_run):
    (part,) = group_runs([make_run(lengths=(*range(1, 501), 1000, 4000))])
    drawn = lengths_by_point(part)
    assert [n for point in drawn for n in point] == part.lengths
    assert len(drawn) <= 52
    assert drawn[-2:] == [(1000,), (4000,)]
    assert any(point[-1] == 40 for point in drawn), "no point mixes trained and longer lengths"
    (few,) = group_runs([make_run(lengths=(41, 42, 4000))])
    assert lengths_by_point(few) == [(41,), (42,), (4000,)]


def test_settings_are_written_as_they_are(runs):
    text = how_it_was_run(Content.of(runs)).html
    for name, value in [("training.lengths", "1, 40"), ("training.clip", "1.0"), ("training.patience", "none")]:
        assert f"<dt>{name}</dt><dd>{value}</dd>" in text


def test_curves_keep_the_mean(runs):
    run = runs[0]
    steps, losses = curve(run, "train", "loss")
    assert len(steps) <= 80
    everything = [line["loss"] for line in run.metrics if line["kind"] == "train"]
    assert sum(losses) / len(losses) == pytest.approx(sum(everything) / len(everything))
    assert curve(replace(run, metrics=[]), "train", "loss") == ([], [])


def test_lengths_below_training_are_not_called_beyond(make_run):
    below = make_run(lengths=(2, 15, 300), train=(10, 20))
    below.result["checkpoints"]["last"]["correct"] = {"2": 512, "15": 512, "300": 256}
    made = page([below, make_run(task=TaskSpec("modular-sum", {"modulus": 3}), lengths=(2, 15), train=(10, 20))])
    findings = re.findall(r'<p class="finding">(.*?)</p>', made, re.S)
    assert "<br>At length 300: lstm 50.0%" in findings[0]
    assert "length 2" not in findings[0]
    assert findings[1].endswith("<br>No length beyond the training range was tested.")
    overview = re.findall(r'<a href="#task\d">.*?</th><td>(.*?)</td>', made)
    assert overview == ["300", "15"]
    row = re.search(r'<th scope="row">parity, lstm</th><td>0</td><td>(.*?)</td><td>(.*?)</td>', made)
    assert row
    assert row.groups() == ("100.0", "50.0"), "the trained lengths, the longer ones"


def test_two_files_of_one_name_keep_their_names(make_run):
    here, there, other = (make_run(f"{place}/toys.py:Net") for place in ("/x/a", "/x/b", "/x/c"))
    third = make_run("/x/c/own.py:Net", task=TaskSpec("modular-sum", {"modulus": 3}))
    parts = group_runs([here, there, third])
    assert [[g.label for g in p.groups] for p in parts] == [["a/toys.py:Net", "b/toys.py:Net"], ["own.py:Net"]]
    elsewhere = replace(other, experiment=replace(other.experiment, data=third.experiment.task))
    assert [[g.label for g in p.groups] for p in group_runs([here, elsewhere])] == [
        ["a/toys.py:Net"],
        ["c/toys.py:Net"],
    ]
    hub = group_runs([make_run("lstm"), make_run("hf:made/lstm")])[0]
    assert [g.label for g in hub.groups] == ["lstm", "hf:made/lstm"]


@pytest.mark.parametrize("kinds", [(), ("train",), ("validation",), ("train", "validation")])
def test_curves_are_those_that_were_recorded(make_run, kinds):
    first, second = (
        replace(run, metrics=[line for line in run.metrics if line["kind"] in kinds])
        for run in (make_run(seed=0), make_run(seed=1))
    )
    charts = [chart for panel in learning_curves(*group_runs([first, second])) for chart in panel.below]
    assert [chart.percent for chart in charts] == [kind == "validation" for kind in kinds]
    for chart, kind in zip(charts, kinds, strict=True):
        curves = [curve(run, kind, "loss" if kind == "train" else "accuracy")[1] for run in (first, second)]
        assert chart.series["lstm"][1] == [*curves[0], None, *curves[1]], "a gap between the seeds"


def made_by(run, **code):
    run.result["code"] = {"version": "0.1.0", "commit": None, "clean": None, **code}
    return run


def test_runs_made_by_other_code_are_named(make_run):
    runs = [made_by(make_run(seed=seed), commit="1a2b3c4d5e", clean=True) for seed in range(3)]
    runs.append(made_by(make_run("gru"), commit="99aabbccdd", clean=False))
    note = "Not all of these runs were made by the same code: 3 runs by lengthwise 0.1.0 at commit 1a2b3c4; "
    note += "1 run (gru, seed 0) by lengthwise 0.1.0 at commit 99aabbc with changes."
    assert note in " ".join(text(runs).split())
    assert page(runs).count(f'<p class="note">{note}</p>') == 1
    old = make_run("rnn")
    old.result["machine"]["lengthwise"] = "0.0.9"
    two = Content.of([runs[0], old, make_run("lstm", task=TaskSpec("modular-sum", {"modulus": 3}))]).code_note
    assert "1 run (parity, rnn, seed 0) by lengthwise 0.0.9" in two
    changed = Content.of([runs[0], made_by(make_run("rnn"), commit="1a2b3c4d5e", clean=False)]).code_note
    assert changed, "a checkout with changes is other code than the same commit without"


def test_what_a_record_leaves_open_is_no_other_code(runs, make_run):
    """Older records have no commit, and an installed library has none."""
    assert Content.of(runs).code_note == ""
    known = [made_by(make_run("gru"), commit="1a2b3c4d5e", clean=True), made_by(make_run("rnn"))]
    assert Content.of([*runs, *known]).code_note == ""
    assert "same code" not in text([*runs, *known]) + page([*runs, *known])


@pytest.mark.parametrize("seeds", [1, 3])
def test_names_stay_whole_in_sixty_columns(make_run, seeds):
    kinds = ("paper", "official", "orthogonal", "one-hot")
    runs = [make_run("block-lrnn", s, options={"normalisation": kind}) for kind in kinds for s in range(seeds)]
    shown = text(runs, 60)
    assert max(map(len, shown.splitlines())) <= 60
    for kind in kinds:
        assert re.search(rf"\bnormalisation={kind}\b", shown)


def test_what_most_of_many_variants_share_is_not_in_their_names(make_run):
    usual = {"width": 8, "heads": 2, "layers": 1}
    changed = [{}, {"width": 16}, {"heads": 4}, {"layers": 3}, {"layers": 2, "heads": 1}]
    (part,) = group_runs([make_run(options={**usual, **some}) for some in changed])
    assert [g.label for g in part.groups] == [
        "lstm", "lstm width=16", "lstm heads=4", "lstm layers=3", "lstm heads=1 layers=2"
    ]  # fmt: skip


def test_of_nested_options_a_label_names_the_one_that_differs():
    def of(**inside):
        options = {"inside": {"name": "learned", **inside}, "between": {"name": "rope"}, "ends": 4}
        settings = {"model.position": "bilevel", "model.position_options": options}
        (planned,) = lab.plan("parity", ["transformer"], seeds=1, settings=settings)
        return planned

    labels = labelled([of(rows=8), of(rows=16)], {"transformer": "transformer"})
    assert labels == ["transformer inside.rows=8", "transformer inside.rows=16"]
