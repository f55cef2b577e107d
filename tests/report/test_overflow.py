"""Runs whose logits overflowed: what the terminal and the page say, and what they name as the remedy."""

from __future__ import annotations

import copy

import pytest
from rich.console import Console

from lengthwise import report
from lengthwise.report.overflow import REMEDY

pytestmark = pytest.mark.usefixtures("without_charts")


def overflowed(run):
    points = copy.deepcopy(run.result["checkpoints"])
    points["last"]["overflowed"] = {"1000": 512}
    run.result["checkpoints"] = points
    return run


@pytest.mark.parametrize(
    ("model", "options", "helps"),
    [
        ("block-lrnn", {}, True),
        ("block-lrnn", {"variant": "official"}, True),
        ("block-lrnn", {"variant": "automaton"}, False),
        ("diagonal-lrnn", {}, False),
    ],
)
def test_the_remedy_is_named_where_there_is_one(model, options, helps, tmp_path, make_run):
    runs = [overflowed(make_run(model, options=options)), make_run("lstm")]
    console = Console(width=200, record=True, file=(tmp_path / "said").open("w"))
    console.print(report.table(runs))
    report.html(runs, tmp_path / "index.html")
    for said in (console.export_text(), (tmp_path / "index.html").read_text()):
        assert "Logits that overflow count as wrong" in said
        assert (REMEDY in said) == helps


def test_it_is_not_named_where_none_overflowed(tmp_path, make_run):
    report.html([make_run("block-lrnn"), overflowed(make_run("lstm"))], tmp_path / "index.html")
    assert REMEDY not in (tmp_path / "index.html").read_text()
