"""RegularGPT's tables: the published numbers, what every scale runs, and the smallest scale from end to end."""

import json
import re

import pytest
import torch

from lengthwise import lab, recipes, tasks
from lengthwise.cli import main
from lengthwise.errors import Error
from lengthwise.evaluate import score_strings
from lengthwise.recipes.common.rules import differences, differences_from_paper, settings_of
from lengthwise.recipes.papers.regulargpt.table_1 import MODELS, RULES, TABLE_1, planned, thinned
from lengthwise.recipes.papers.regulargpt.table_2 import varied

CPU = torch.device("cpu")
GRID = (list(TABLE_1), MODELS)
CELLS = [(task, model) for task in TABLE_1 for model in MODELS]
OF_GROWING_LENGTHS = {"training.grow_at"}
"""Nothing is published where lengths do not grow."""


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


def test_overnight_trains_the_published_network_at_a_published_rate():
    ours, (published, *_) = (
        planned("overnight", "parity", "regular-gpt C=2"),
        planned("paper", "parity", "regular-gpt C=2"),
    )
    assert [e.seed for e in ours] == [0, 1, 2]
    assert ours[0].training == published.training.but(lr=5e-4, steps=4_000)
    assert published.training.optimizer.schedule == "constant", "so this is the beginning of it"
    assert ours[0].model == published.model
    assert set(ours[0].tests.lengths) < set(published.tests.lengths)


def test_a_call_may_name_another_width():
    cell = ["parity, regular-gpt C=3"]
    ours, scales = (
        recipes.get("regulargpt", "table-1", "overnight", settings).only(cell) for settings in (["width=64"], [])
    )
    for mine, wide in zip(ours.experiments, scales.experiments, strict=True):
        assert (mine.model.options["width"], wide.model.options["width"]) == (64, 256)
        assert mine.training == wide.training
        assert [n for n in mine.tests.lengths if n > 40] == list(range(41, 501))
        assert len(wide.tests.lengths) < len(mine.tests.lengths)


def test_a_width_of_nothing_is_refused():
    with pytest.raises(Error, match="at least 1"):
        recipes.get("regulargpt", "table-1", "overnight", ["width=0"])


def test_the_page_says_of_which_width(root):
    recipe = recipes.get("regulargpt", "table-1", "smoke", ["width=24"]).only(["parity, rnn"])
    lab.run(recipe.experiments, root, workers=1, device="cpu")
    compared, changed = recipe.panels(lab.load(root))
    assert [list(row["cells"]) for row in compared.data] == [["rnn, width 24"]]
    of = {row["setting"]: (row["published"], row["here"]) for row in changed.data}
    assert of["model.width"] == (256, 24)
    assert of["lengths"] == ("every", "every"), "as published, unlike the scale's"


@pytest.mark.parametrize("scale", ["smoke", "laptop"])
def test_every_knob_has_its_published_value(scale):
    for task, model in CELLS:
        ours, published = (settings_of(RULES[each], task, model) for each in (scale, "paper"))
        assert ours.keys() - published.keys() <= OF_GROWING_LENGTHS, (task, model)


def test_what_differs_from_the_paper_is_what_the_rules_change():
    rows = {
        (row["for"], row["setting"]): (row["published"], row["here"])
        for row in differences(RULES["paper"], RULES["laptop"], *GRID)
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
    return [(row["for"], row["setting"]) for row in differences(RULES["paper"], RULES[scale], *grid)]


def test_table_2_trains_nothing_of_its_own():
    first = {e.hash for e in recipes.get("regulargpt", "table-1", "laptop").experiments}
    second = recipes.get("regulargpt", "table-2", "laptop").experiments
    assert len(second) == 3 + 3 + 2, "three seeds each, of the Transformer two"
    assert {e.hash for e in second} <= first


def call(root, table, *more):
    return main(["reproduce", "regulargpt", table, "--scale", "smoke", "--out", str(root), "--workers", "1", *more])


def test_smoke_row_by_row(root, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # a narrower terminal breaks the table between its columns
    assert call(root, "table-1", "--only", "parity", "--only", "tomita-5") == 0
    out, _ = capsys.readouterr()
    assert re.search(r"^parity +\d", out, re.M)
    assert re.search(
        r"published max +100\.0 +52\.3 +100\.0 +100\.0\n +published mean +98\.9 +50\.1 +100\.0 +88\.7", out
    )
    assert "What differs from the paper at smoke scale" in out
    page = (root / "index.html").read_text()
    assert page.count("<span>published max 74.5</span><br><span>published mean 74.5</span>") == 1
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


@pytest.mark.slow
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
