"""Narrow terminals: every name and every number is there, whole."""

from __future__ import annotations

import re

import pytest

from lengthwise.report import heat_map, text_table
from lengthwise.report.formatting import in_columns
from lengthwise.report.narrow_text import fold, wrap


@pytest.mark.parametrize("width", [32, 45, 60])
def test_a_folded_table_has_every_column_once_beside_its_rows(width):
    heads = [f"normalisation: {word}" for word in ("paper", "official", "orthogonal", "none")]
    numbers = [[f"{10 * i + j}.5" for j in range(4)] for i in range(3)]
    text = in_columns(["step", *heads], [[str(i), *row] for i, row in enumerate(numbers)], ">" * 5)
    folded = fold(text, width)
    assert max(map(len, folded.splitlines())) <= width
    parts = [[re.split(r"  +", line.strip()) for line in part.splitlines()] for part in folded.split("\n\n")]
    assert len(parts) > 1
    assert [head for part in parts for head in part[0][1:]] == heads
    for i, row in enumerate(numbers, 1):
        assert [part[i][0] for part in parts] == [str(i - 1)] * len(parts)
        assert [cell for part in parts for cell in part[i][1:]] == row


def test_what_fits_and_what_is_no_table_stays_as_it_is():
    text = "A sentence about it all, longer than the window is wide.\n\n" + in_columns(["a", "b"], [["1", "2"]], "<<")
    assert fold(text, 20) == text
    wide = heat_map("", "", ["r"], [f"column {i}" for i in range(9)], [[1.0] * 9]).text
    assert fold(wide, 200) == wide
    (table, sentence) = fold(f"{wide}\nIn all 9 columns.", 40).rsplit("\n", 1)
    assert sentence == "In all 9 columns."
    assert table.count("column") == 9


def test_empty_cells_and_indented_names_keep_their_places():
    rows = [["parity", "", "1"], ["  majority 50.0", "agrees", ""]]
    folded = fold(text_table("", "", ["", "first column", "second column"], rows, None).text, 32)
    first, second = folded.split("\n\n")
    assert first.splitlines() == ["                 first column", "parity", "  majority 50.0  agrees"]
    assert second.splitlines()[1] == "parity           1"


@pytest.mark.parametrize(
    ("label", "lines"),
    [
        ("lstm width=64", ["lstm width=64"]),
        ("block-lrnn normalisation=orthogonal", ["block-lrnn", "normalisation=", "orthogonal"]),
        ("my_models/toys.py:Net", ["my_models/toys.", "py:Net"]),
        ("x" * 20, ["x" * 16, "xxxx"]),
    ],
)
def test_names_break_where_they_may(label, lines):
    assert wrap(label, 16) == lines


@pytest.mark.parametrize("width", [1, 0, -1])
def test_a_terminal_of_one_column_is_no_error(width):
    assert wrap("ab c", width) == ["a", "b", "c"]
