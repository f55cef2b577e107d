"""What a language model finds in long prompts, as the page and the terminal show it."""

from __future__ import annotations

import json

import pytest

from lengthwise import report
from lengthwise.evaluate import FarScores


def scores(**changes):
    given = {
        "what": "needle",
        "lengths": (512, 2048),
        "depths": (0.0, 0.5, 1.0),
        "scores": ((1.0, 0.75, 1.0), (0.125, 0.25, 1.0)),
        "samples": 8,
        "baseline": 0.1,
        "settings": {"keys": 1, "scoring": "ranking", "choices": 10},
    }
    return FarScores(**(given | changes))


def test_a_row_is_a_depth_and_a_column_a_length():
    panel = report.far_tokens(scores(), "BiPE <x>")
    lines = [line.split() for line in panel.text.splitlines()[2:]]
    assert lines == [
        ["depth", "512", "2,048"],
        ["0%", "100.0", "12.5"],
        ["50%", "75.0", "25.0"],
        ["100%", "100.0", "100.0"],
        ["all", "depths", "91.7", "45.8"],
    ]
    assert panel.title == "BiPE <x>: a needle in a haystack"
    assert "<x>" not in panel.body
    assert panel.body.count("<td") == 8
    assert "91.7% of the answers are right in prompts of 512 tokens, 45.8% in prompts of 2,048." in panel.text
    assert "likelier than 9 others" in panel.caption
    assert "all alike scores 10.0%" in panel.caption
    assert json.loads(json.dumps(panel.data))["by_length"] == {
        "512": pytest.approx(11 / 12),
        "2048": pytest.approx(11 / 24),
    }


def test_variables_have_no_depth_and_written_answers_no_baseline():
    settings = {"scoring": "generation", "budget": 32}
    panel = report.far_tokens(
        scores(what="variables", lengths=(64,), depths=(), scores=((0.5,),), baseline=0.0, settings=settings)
    )
    assert panel.text.splitlines()[-1].split() == ["anywhere", "50.0"]
    assert panel.text.startswith("50.0% of the answers are right in prompts of 64 tokens.\n")
    assert "Depth" not in panel.caption
    assert "the 32 tokens that the model writes" in panel.caption
