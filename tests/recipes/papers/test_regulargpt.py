"""RegularGPT's tables: the published numbers, what every scale runs, and the smallest scale from end to end."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import torch

from lengthwise import Error, lab, recipes, tasks
from lengthwise.cli import main
from lengthwise.evaluate import score_strings
from lengthwise.recipes.common.grid import Grid
from lengthwise.recipes.common.rules import differences, differences_from_paper, settings_of
from lengthwise.recipes.papers.regulargpt.published import MODELS, TABLE_1, TABLE_2
from lengthwise.recipes.papers.regulargpt.scales import LAPTOP, PAPER, RULES, SMOKE
from lengthwise.recipes.papers.regulargpt.table_1 import planned, thinned
from lengthwise.recipes.papers.regulargpt.table_2 import varied

CPU = torch.device("cpu")
GRID = (list(TABLE_1), MODELS)
CELLS = [(task, model) for task in TABLE_1 for model in MODELS]


@pytest.mark.parametrize(
    ("task", "model", "most", "mean"),
    [
        ("even-pairs", "transformer-xl", 99.7, 73.2),
        ("even-pairs", "regular-gpt C=2", 100.0, 89.3),
        ("modular-arithmetic", "regular-gpt C=2", 96.4, 82.6),
        ("modular-arithmetic", "regular-gpt C=3", 21.2, 20.5),
        ("parity", "rnn", 100.0, 98.9),
        ("cycle-navigation", "transformer-xl", 21.7, 20.6),
        ("d-2", "regular-gpt C=3", 99.8, 96.5),
        ("d-12", "regular-gpt C=3", 94.1, 90.4),
        ("tomita-3", "transformer-xl", 100.0, 94.4),
        ("tomita-5", "transformer-xl", 74.5, 74.5),
        ("tomita-6", "regular-gpt C=3", 100.0, 65.7),
    ],
)
def test_table_1_as_published(task, model, most, mean):
    assert TABLE_1[task][list(MODELS).index(model)] == (most, mean)


def test_table_2_as_published():
    assert TABLE_2["length 40"]["transformer-xl"] == [98.4, 99.8, 99.6, 97.8, 77.2]
    assert TABLE_2["lengths 41–500"]["transformer-xl"] == [50.1, 49.7, 50.3, 49.9, 50.0]
    assert {a for setting in TABLE_2.values() for model in ("rnn", "regular-gpt C=2") for a in setting[model]} == {
        100.0
    }


def test_the_table_is_whole():
    assert list(map(len, (TABLE_1, MODELS))) == [12, 4]
    assert {len(row) for row in TABLE_1.values()} == {4}
    named = {e.task.name for e in recipes.get("regulargpt", "table-1", "smoke").experiments}
    assert named == set(TABLE_1)


def test_the_paper_is_the_published_setting():
    experiments = planned("paper", "parity", "regular-gpt C=3")
    assert [(e.training.optimizer.lr, e.seed) for e in experiments] == [
        (r, s) for r in (1e-4, 3e-4, 5e-4) for s in range(3)
    ]
    e = experiments[0]
    assert e.model.options == {"width": 256, "heads": 8, "chunk": 3, "variant": "official"}
    t, o, c = e.training, e.training.optimizer, e.training.curriculum
    assert (c.lengths, t.steps, t.batch, o.kind, o.betas) == ((1, 40), 100_000, 128, "adam", (0.9, 0.999))
    assert (c.kind, o.schedule, o.clip, o.warmup, o.weight_decay) == ("uniform", "constant", None, 0, 0.0)
    assert (t.precision, t.checkpointing.patience, tasks.get(e.task.name, **e.task.params).params["supervision"]) == (
        "fp32",
        None,
        "last",
    )
    assert e.tests.lengths == (10, 20, 30, 40, *range(41, 501))
    (xl, *_) = planned("paper", "d-12", "transformer-xl")
    assert (xl.training.curriculum.lengths, xl.model.options) == ((2, 50), {"width": 256, "heads": 8, "layers": 5})
    assert xl.tests.lengths == (14, 26, 38, *range(50, 101))


def test_modular_arithmetic_begins_with_a_plus():
    e = planned("paper", "modular-arithmetic", "rnn")[0]
    assert tasks.get(e.task.name, **e.task.params).params["leading_plus"] is True
    assert [n for n in e.tests.lengths if n > 40] == list(range(42, 501, 2))


@pytest.mark.parametrize(("task", "model"), CELLS)
def test_laptop_keeps_tasks_training_lengths_and_the_range_of_tests(task, model):
    paper, laptop = planned("paper", task, model)[0], planned("laptop", task, model)
    high = paper.training.curriculum.lengths[1]
    beyond = [n for n in paper.tests.lengths if n > high]
    assert 2 <= len(laptop) <= 3
    tested = []
    for e in laptop:
        assert e.task.name == task
        assert e.model.options.get("chunk") == paper.model.options.get("chunk")
        assert e.training.curriculum.lengths == paper.training.curriculum.lengths
        tested = [n for n in e.tests.lengths if n > high]
        assert set(tested) <= set(beyond)
        assert 12 <= len(tested) <= 25
        assert tested[-1] == beyond[-1]
        assert tested[0] <= beyond[0] + 30
        assert len(e.tests.lengths) == len(tested) + 4, "with lengths of the training range beside them"
    if paper.task.name not in ("modular-arithmetic", "tomita-5"):
        assert {n % 2 for n in tested} == {0, 1}


def test_all_models_of_a_row_get_the_same_test():
    for task in TABLE_1:
        experiments = [e for model in MODELS for e in planned("laptop", task, model)]
        assert len({e.tests for e in experiments}) == 1
        assert len({json.dumps(e.task.params) for e in experiments}) == 1


def test_thinned_by_hand():
    assert thinned(range(41, 501), "every") == list(range(41, 501))
    assert thinned(range(1, 11), 3) == [1, 4, 7, 10]
    assert thinned(range(1, 11), 4) == [1, 4, 7, 10], "the stride is odd"
    assert thinned(range(2, 6), 16) == [2, 3, 4, 5]


def test_later_rules_win():
    rules = [*PAPER, *LAPTOP]
    assert settings_of(LAPTOP, "parity", "rnn")["model.width"] == 64
    assert settings_of(rules, "parity", "rnn")["model.width"] == 64
    assert settings_of(SMOKE, "modular-arithmetic", "regular-gpt C=2")["training.steps"] == 3
    assert "model.layers" not in settings_of(PAPER, "parity", "regular-gpt C=2")


@pytest.mark.parametrize("scale", ["smoke", "laptop"])
def test_every_knob_has_its_published_value(scale):
    for task, model in CELLS:
        assert settings_of(RULES[scale], task, model).keys() <= settings_of(PAPER, task, model).keys(), (task, model)


def test_what_differs_from_the_paper_is_what_the_rules_change():
    rows = {
        (row["for"], row["setting"]): (row["published"], row["here"]) for row in differences(RULES, "laptop", *GRID)
    }
    assert rows["all", "model.width"] == (256, 64)
    assert rows["all", "lengths"][0] == "every"
    assert rows["regular-gpt", "model.variant"] == ("official", "lengthwise")
    assert rows["modular-arithmetic", "training.curriculum"] == ("uniform", "growing")
    assert ("all", "training.batch") not in rows, "as published"
    assert not any(who.startswith("modular") for who, _ in rows_of("laptop", ["parity"], MODELS))
    assert not any(who.startswith("regular-gpt") for who, _ in rows_of("laptop", ["parity"], ["rnn"]))
    smoke = rows_of("smoke", *GRID)
    assert ("transformer-xl", "training.steps") not in smoke, "overridden by a later rule"
    assert ("all", "training.batch") in smoke
    assert differences_from_paper(RULES, "paper", *GRID, same="") == []


def rows_of(scale, *grid):
    return [(row["for"], row["setting"]) for row in differences(RULES, scale, *grid)]


def test_table_2_trains_nothing_of_its_own():
    first = {e.hash for e in recipes.get("regulargpt", "table-1", "laptop").experiments}
    second = recipes.get("regulargpt", "table-2", "laptop").experiments
    assert len(second) == 3 + 3 + 2, "three seeds each, of the Transformer two"
    assert {e.hash for e in second} <= first


def test_only_some_rows():
    recipe = recipes.get("regulargpt", "table-1", "smoke")
    part = recipe.only(["parity", "d-2"])
    assert [e.task.name for e in part.experiments] == ["parity"] * 4 + ["d-2"] * 4
    assert [e.hash for e in part.experiments] == [
        e.hash for e in recipe.experiments if e.task.name in ("parity", "d-2")
    ]
    with pytest.raises(Error, match="Did you mean 'parity'"):
        recipe.only(["prity"])
    with pytest.raises(Error, match="Leave --only out"):
        replace(recipe, grid=Grid()).only(["parity"])


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def call(root, table, *more):
    return main(["reproduce", "regulargpt", table, "--scale", "smoke", "--out", str(root), "--workers", "1", *more])


def test_smoke_row_by_row(root, capsys):
    assert call(root, "table-1", "--only", "parity", "--only", "tomita-5") == 0
    out, _ = capsys.readouterr()
    assert re.search(r"^parity +\d", out, re.M)
    assert re.search(r"52\.3 / 50\.1 +100\.0 / 100\.0 +100\.0 / 88\.7", out)
    assert "What differs from the paper at smoke scale" in out
    page = (root / "index.html").read_text()
    assert page.count("published 74.5 / 74.5") == 1
    assert page.index("Measured beside published") < page.index('id="task0"')
    assert "cycle-navigation" not in page

    assert call(root, "table-1", "--only", "parity", "--json") == 0
    out, err = capsys.readouterr()
    assert err.count(": found finished") == 4
    compared, changed = json.loads(out)["panels"]
    (row,) = compared["data"]
    assert (row["row"], list(row["cells"])) == ("parity", list(MODELS))
    assert row["cells"]["rnn"]["published"] == pytest.approx({"max": 1.0, "mean": 0.989})
    run = next(run for run in lab.load(root) if run.experiment.hash == planned("smoke", "parity", "rnn")[0].hash)
    beyond = [n for n in run.experiment.tests.lengths if n > 40]
    shares = [run.result["checkpoints"]["last"]["correct"][str(n)] / run.result["samples"] for n in beyond]
    assert row["cells"]["rnn"]["measured"]["scores"] == [pytest.approx(sum(shares) / len(shares))]
    assert changed["data"]


def test_smoke_of_table_2(root, capsys):
    assert call(root, "table-2", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["panels"][0]["data"]
    assert [row["row"] for row in rows][::5] == ["length 40, P(1) = 0.1", "lengths 41–500, P(1) = 0.1"]
    assert len(rows) == 10
    assert rows[4]["cells"]["transformer-xl"]["published"] == {"max": None, "mean": 0.772}


def test_table_2_varies_the_test_strings(root):
    (outcome,) = lab.run(planned("smoke", "parity", "rnn"), root, workers=1, device="cpu")
    run = outcome.run
    assert run
    rows = varied({"rnn": [run]}, 40, "cpu")
    assert [row.label for row in rows][:2] == ["length 40, P(1) = 0.1", "length 40, P(1) = 0.3"]
    task = tasks.get("parity", probabilities=[0.7, 0.3])
    tagger = lab.load_model(run)
    right = score_strings(tagger, task, (40,), 40, 0, device=CPU).correct["40"]
    assert rows[1].cells["rnn"].scores == (right / 40,)
    lengths = [n for n in run.experiment.tests.lengths if n > 40]
    found = score_strings(tagger, task, tuple(lengths), 40 // len(lengths), 0, device=CPU).correct
    assert rows[6].cells["rnn"].scores == (pytest.approx(sum(found.values()) / 40),)
    assert rows[0].majority == pytest.approx(0.5 + 0.5 * 0.8**40)


@pytest.mark.slow
def test_smoke_of_the_whole_table(root, capsys):
    assert call(root, "table-1", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["row"] for row in data["panels"][0]["data"]] == list(TABLE_1)
    assert data["failures"] == []
