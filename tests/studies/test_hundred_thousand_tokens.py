"""Far beyond: the runs are Table 1's, the counts are the lab's, and what is not asked is said."""

import json

import hundred_thousand_tokens
import pytest
import torch
from hundred_thousand_tokens import LengthScore, LongTest, _farthest, length_scores

from lengthwise import lab, recipes, theory
from lengthwise.cli import main
from lengthwise.evaluate import score_strings
from lengthwise.lab.statistics import wilson
from lengthwise.recipes.common import grid
from lengthwise.recipes.papers.regulargpt.table_1 import planned

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def run(root):
    (outcome,) = lab.run(planned("smoke", "parity", "rnn"), root, workers=1, device="cpu")
    assert outcome.run
    return outcome.run


def test_nothing_is_trained_but_what_table_1_trains():
    first = {e.hash for e in recipes.get("regulargpt", "table-1", "laptop").experiments}
    mine = recipes.get(hundred_thousand_tokens.__file__, scale="laptop").experiments
    assert {e.hash for e in mine} <= first
    assert {e.task.name for e in mine} == {"parity", "cycle-navigation", "even-pairs"}
    assert {e.model.name for e in mine} == {"rnn", "transformer-xl", "regular-gpt"}


def test_a_right_model_is_asked_to_the_end(run, monkeypatch):
    monkeypatch.setattr(grid, "load_model", lambda run: theory.exact_classifier("parity"))
    points = length_scores(LongTest((50, 2_000, 3_000), 16, 4, 8_000, 100), [run, run], "cpu")
    assert [(p.length, p.strings, p.right) for p in points] == [
        (50, 16, (16, 16)), (2_000, 4, (4, 4)), (3_000, 4, (4, 4))
    ]  # fmt: skip
    assert points[1].mean == 1
    assert points[1].interval == wilson(8, 8)


def test_a_model_that_guesses_is_not_asked_on(run):
    asked = LongTest((45, 60, 300), 12, 4, 10_000, 100)
    (only,) = length_scores(asked, [run], "cpu")
    right = score_strings(lab.load_model(run), lab.load_task(run), (45,), 12, 0, device=CPU).correct
    assert (only.length, only.right, only.overflowed) == (45, (right["45"],), 0)


def test_a_model_of_quadratic_memory_is_asked_less(run, monkeypatch):
    monkeypatch.setattr(grid, "load_model", lambda run: theory.exact_classifier("parity"))
    monkeypatch.setattr(hundred_thousand_tokens, "_quadratic", lambda run: True)
    points = length_scores(LongTest((50, 100, 150), 8, 4, 1_000, 100), [run], "cpu")
    assert [(p.length, p.strings) for p in points] == [(50, 4), (100, 4)]


def test_holds_to_the_last_length_before_it_falls():
    points = [
        LengthScore(50, 20, (20, 20)),
        LengthScore(100, 20, (20, 18)),
        LengthScore(200, 20, (18, 18)),
        LengthScore(300, 20, (20, 20)),
    ]
    assert _farthest(points) == "100"
    assert _farthest(points[:2]) == "100, the longest tested"
    assert _farthest(points[2:]) == "less than 200"


def test_smoke(root, capsys):
    call = ["reproduce", hundred_thousand_tokens.__file__, "--scale", "smoke", "--only", "parity", "--out", str(root)]
    assert main([*call, "--workers", "1", "--json"]) == 0
    drawn, table = json.loads(capsys.readouterr().out)["panels"]
    assert drawn["title"].startswith("parity")
    assert list(table["data"]["parity"]) == list(drawn["data"]["series"])
    first = table["data"]["parity"]["rnn"][0]
    assert (first["length"], first["strings"]) == (100, 8)
    assert first["mean"] == sum(first["right"]) / 8 == drawn["data"]["series"]["rnn"]["y"][0]
    assert "tested up to 100" in table["caption"]
