"""Narrow terminals: every name and every number is there, whole."""

from __future__ import annotations

import re

import pytest

from lengthwise.report.formatting import in_columns, wrap


@pytest.mark.parametrize("width", [32, 45, 60])
def test_a_cut_table_has_every_column_once_beside_its_rows(width):
    heads = [f"normalisation: {name}" for name in ("paper", "official", "orthogonal", "none")]
    numbers = [[f"{10 * i + j}.5" for j in range(4)] for i in range(3)]
    text = in_columns([["step", *heads], *([str(i), *row] for i, row in enumerate(numbers))], width=width)
    assert max(map(len, text.splitlines())) <= width
    parts = [[re.split(r"  +", line.strip()) for line in part.splitlines()] for part in text.split("\n\n")]
    assert len(parts) > 1
    assert [head for part in parts for head in part[0][1:]] == heads
    for i, row in enumerate(numbers, 1):
        assert [part[i][0] for part in parts] == [str(i - 1)] * len(parts)
        assert [cell for part in parts for cell in part[i][1:]] == row


def test_every_part_names_its_rows_in_full():
    rows = [["model", "made", "raw", "seconds"], ["gru", "learned", "refuted", "12"]]
    assert in_columns(rows, labels=2) == in_columns(rows, labels=2, width=40)
    assert [part.splitlines()[1].split() for part in in_columns(rows, labels=2, width=24).split("\n\n")] == [
        ["gru", "learned", "refuted"],
        ["gru", "learned", "12"],
    ]


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
