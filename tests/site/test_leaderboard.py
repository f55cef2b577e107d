"""The leaderboard: its rows are those of the records, name their experiments, and can be trained again."""

import copy
import json
import re
from pathlib import Path

import pytest

from lengthwise import lab

from .conftest import script

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "leaderboard").glob("*.json"))


@pytest.fixture(scope="module")
def board():
    return script("leaderboard")


def test_rows_of_our_own_records_say_what_these_say(board):
    rows = board.read()
    assert len(rows) >= 100
    recorded = board.recorded()
    assert {name: row for name, row in rows.items() if row["made"]["record"]} == recorded


def test_every_row_obeys_the_schema_and_names_its_experiments(board):
    assert {name: found for name, row in board.read().items() if (found := [*board.problems(row)])} == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: row.pop("samples"), "a row has"),
        (lambda row: row.update(seeds={}), "at least one seed"),
        (lambda row: row["seeds"]["0"].update(verdict="right"), "a verdict is"),
        (lambda row: row["seeds"]["0"]["right"].update({"40": 2}), "lie in 0..1"),
        (lambda row: row["training"].update(lr=0.5), "the hash of another experiment"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(board, change, said):
    row = copy.deepcopy(next(row for name, row in board.read().items() if name.startswith("parity-rnn")))
    change(row)
    assert said in " ".join(board.problems(row))


def test_a_row_of_runs_is_trained_again_and_compared(board, quick, tmp_path, capsys):
    lab.run(quick("lstm", seeds=2), tmp_path / "runs", workers=1)
    assert board.main(["add", str(tmp_path / "runs"), "--out", str(tmp_path / "rows")]) == 0
    (file,) = (tmp_path / "rows").glob("parity-lstm-*.json")
    assert board.main(["check", str(file), "--seed", "1"]) == 0
    assert "seed 1 came out as the row says" in capsys.readouterr().out
    row = json.loads(file.read_text())
    row["seeds"]["1"]["right"]["16"] = 1.0 - row["seeds"]["1"]["right"]["16"] / 2
    file.write_text(json.dumps(row))
    assert board.main(["check", str(file), "--seed", "1"]) == 1
    assert re.search(r"at length 16 0\.\d+ of the strings are right, and the row says", capsys.readouterr().out)
    assert board.main(["check", str(tmp_path / "none.json")]) == 2


def test_a_row_counts_seeds_and_lengths(board):
    right = [{"10": 1.0, "40": 1.0, "500": 0.9}, {"10": 1.0, "40": 1.0, "500": 1.0}, {"10": 0.9, "40": 1.0, "500": 1.0}]
    row = {"seeds": {str(i): {"right": of, "verdict": "unknown"} for i, of in enumerate(right)}}
    assert [board.farthest(of) for of in row["seeds"].values()] == [40, 500, 0]
    assert board.everywhere(row) == 1


def test_the_page_has_every_row(board):
    page = board.page()
    assert len(re.findall(r"^\| `", page, re.M)) == len(FILES)
    assert '| `rnn` (steady) | 5 of 5 | 500 | <span class="proved">✓ 5</span> |' in page
